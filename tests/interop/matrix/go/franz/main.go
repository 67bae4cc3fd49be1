// Command franz tries franz-go.
package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"headwater/matrix/probe"
)

var codecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
}

type program struct {
	servers, name string
}

func main() {
	probe.Run(func(servers, name string) probe.Steps {
		p := program{servers, name}
		return probe.Steps{
			"create":            p.create,
			"produce":           p.produce,
			"consume":           p.consume,
			"group":             p.classicGroup,
			"transaction":       p.transaction,
			"admin":             p.administer,
			"delete":            p.delete,
			"consumer-protocol": p.consumerProtocol,
		}
	})
}

func (p program) client(ctx context.Context, options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(p.servers), kgo.WithContext(ctx))...)
}

func (p program) create(ctx context.Context) error {
	client, err := p.client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, probe.Partitions, 1, nil, p.name); err != nil {
		return err
	}
	topics, err := admin.ListTopics(ctx, p.name)
	if err != nil {
		return err
	}
	if len(topics[p.name].Partitions) != probe.Partitions {
		return errors.New("the topic has another number of partitions")
	}
	return topics[p.name].Err
}

func (p program) produce(ctx context.Context) error {
	for index, codec := range codecs {
		if err := p.produceWith(ctx, codec, probe.Share(index, len(codecs))); err != nil {
			return err
		}
	}
	return nil
}

func (p program) produceWith(ctx context.Context, codec kgo.CompressionCodec, values []string) error {
	client, err := p.client(ctx, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, p.records(values)...).FirstErr()
}

func (p program) records(values []string) []*kgo.Record {
	var records []*kgo.Record
	for number, value := range values {
		partition := int32(number % probe.Partitions)
		records = append(records, &kgo.Record{Topic: p.name, Partition: partition, Value: []byte(value)})
	}
	return records
}

func (p program) consume(ctx context.Context) error {
	return p.readAssigned(ctx, probe.Values())
}

func (p program) readAssigned(ctx context.Context, expected []string, options ...kgo.Opt) error {
	partitions := map[int32]kgo.Offset{}
	for partition := range int32(probe.Partitions) {
		partitions[partition] = kgo.NewOffset().AtStart()
	}
	options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.name: partitions}))
	client, err := p.client(ctx, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	return read(ctx, client, expected)
}

func read(ctx context.Context, client *kgo.Client, expected []string) error {
	var values []string
	for len(values) < len(expected) {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return probe.Expect(values, expected...)
}

func (p program) classicGroup(ctx context.Context) error {
	return p.group(ctx, p.name)
}

func (p program) consumerProtocol(ctx context.Context) error {
	return p.group(ctx, p.name+"-2", kgo.ServerSideBalancer())
}

func (p program) group(ctx context.Context, group string, options ...kgo.Opt) error {
	start := kgo.NewOffset().AtStart()
	options = append(options, kgo.ConsumerGroup(group), kgo.ConsumeTopics(p.name), kgo.ConsumeResetOffset(start))
	client, err := p.client(ctx, append(options, kgo.DisableAutoCommit())...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := read(ctx, client, probe.Values()); err != nil {
		return err
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return err
	}
	offsets, err := kadm.NewClient(client).FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	var sum int64
	offsets.Each(func(each kadm.OffsetResponse) { sum += each.At })
	return probe.ExpectCommitted(sum)
}

func (p program) transaction(ctx context.Context) error {
	client, err := p.client(ctx, kgo.TransactionalID(p.name), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	for _, each := range []struct {
		value string
		end   kgo.TransactionEndTry
	}{{probe.Aborted, kgo.TryAbort}, {probe.Committed, kgo.TryCommit}} {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		if err := client.ProduceSync(ctx, p.records([]string{each.value})...).FirstErr(); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, each.end); err != nil {
			return err
		}
	}
	expected := append(probe.Values(), probe.Committed)
	return p.readAssigned(ctx, expected, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
}

func (p program) administer(ctx context.Context) error {
	client, err := p.client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	return errors.Join(p.change(ctx, admin), p.grow(ctx, admin), p.describeGroup(ctx, admin))
}

func (p program) change(ctx context.Context, admin *kadm.Client) error {
	value := probe.RetentionMs
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: probe.Setting, Value: &value}}
	altered, err := admin.AlterTopicConfigs(ctx, change, p.name)
	if err != nil {
		return err
	}
	described, err := admin.DescribeTopicConfigs(ctx, p.name)
	if err != nil {
		return err
	}
	found := ""
	for _, each := range described[0].Configs {
		if each.Key == probe.Setting {
			found = each.MaybeValue()
		}
	}
	return errors.Join(altered[0].Err, probe.ExpectSetting(found))
}

func (p program) grow(ctx context.Context, admin *kadm.Client) error {
	grown, err := admin.CreatePartitions(ctx, 1, p.name)
	if err != nil {
		return err
	}
	topics, err := admin.ListTopics(ctx, p.name)
	if err != nil {
		return err
	}
	return errors.Join(grown.Error(), probe.ExpectPartitions(len(topics[p.name].Partitions)))
}

func (p program) describeGroup(ctx context.Context, admin *kadm.Client) error {
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	if _, isListed := groups[p.name]; !isListed {
		return errors.New("the group is not listed")
	}
	described, err := admin.DescribeGroups(ctx, p.name)
	if err != nil {
		return err
	}
	if described[p.name].State != "Empty" {
		return errors.New("the state of the group is " + described[p.name].State)
	}
	return described[p.name].Err
}

func (p program) delete(ctx context.Context) error {
	client, err := p.client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.DeleteGroup(ctx, p.name); err != nil {
		return err
	}
	_, err = admin.DeleteTopic(ctx, p.name)
	return err
}
