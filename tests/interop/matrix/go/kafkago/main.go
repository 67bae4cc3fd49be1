// Command kafkago tries kafka-go.
package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"headwater/matrix/probe"
)

// A reader is not closed before its last fetch is answered.
const maxWait = 100 * time.Millisecond

var codecs = []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd}

type program struct {
	servers, name string
	client        *kafka.Client
}

func main() {
	probe.Run(func(servers, name string) probe.Steps {
		p := program{servers, name, &kafka.Client{Addr: kafka.TCP(servers)}}
		return probe.Steps{
			"create":  p.create,
			"produce": p.produce,
			"consume": p.consume,
			"group":   p.group,
			"admin":   p.administer,
			"delete":  p.delete,
		}
	})
}

func (p program) create(ctx context.Context) error {
	config := kafka.TopicConfig{Topic: p.name, NumPartitions: probe.Partitions, ReplicationFactor: 1}
	created, err := p.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	if err := created.Errors[p.name]; err != nil {
		return err
	}
	metadata, err := p.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{p.name}})
	if err != nil {
		return err
	}
	if len(metadata.Topics) != 1 || len(metadata.Topics[0].Partitions) != probe.Partitions {
		return errors.New("the topic has another number of partitions")
	}
	return metadata.Topics[0].Error
}

func (p program) produce(ctx context.Context) error {
	for index, codec := range codecs {
		writer := &kafka.Writer{
			Addr: kafka.TCP(p.servers), Topic: p.name, Balancer: &kafka.RoundRobin{}, RequiredAcks: kafka.RequireAll,
			Compression: codec, BatchSize: 5,
		}
		var messages []kafka.Message
		for _, value := range probe.Share(index, len(codecs)) {
			messages = append(messages, kafka.Message{Value: []byte(value)})
		}
		if err := errors.Join(writer.WriteMessages(ctx, messages...), writer.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (p program) consume(ctx context.Context) error {
	var values []string
	for partition := range probe.Partitions {
		end, err := p.end(ctx, partition)
		if err != nil {
			return err
		}
		reader := kafka.NewReader(kafka.ReaderConfig{
			Brokers: []string{p.servers}, Topic: p.name, Partition: partition, MaxWait: maxWait,
		})
		for reader.Offset() < end {
			message, err := reader.ReadMessage(ctx)
			if err != nil {
				return errors.Join(err, reader.Close())
			}
			values = append(values, string(message.Value))
		}
		if err := reader.Close(); err != nil {
			return err
		}
	}
	return probe.Expect(values, probe.Values()...)
}

func (p program) end(ctx context.Context, partition int) (int64, error) {
	asked := map[string][]kafka.OffsetRequest{p.name: {kafka.LastOffsetOf(partition)}}
	answer, err := p.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: asked})
	if err != nil {
		return 0, err
	}
	found := answer.Topics[p.name][0]
	return found.LastOffset, found.Error
}

func (p program) group(ctx context.Context) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{p.servers}, Topic: p.name, GroupID: p.name, StartOffset: kafka.FirstOffset, MaxWait: maxWait,
	})
	var values []string
	for len(values) < probe.Records {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return errors.Join(err, reader.Close())
		}
		values = append(values, string(message.Value))
		if err := reader.CommitMessages(ctx, message); err != nil {
			return errors.Join(err, reader.Close())
		}
	}
	if err := errors.Join(reader.Close(), probe.Expect(values, probe.Values()...)); err != nil {
		return err
	}
	asked := kafka.OffsetFetchRequest{GroupID: p.name, Topics: map[string][]int{p.name: {0, 1}}}
	offsets, err := p.client.OffsetFetch(ctx, &asked)
	if err != nil {
		return err
	}
	var sum int64
	for _, each := range offsets.Topics[p.name] {
		sum += each.CommittedOffset
	}
	return errors.Join(offsets.Error, probe.ExpectCommitted(sum))
}

func (p program) administer(ctx context.Context) error {
	return errors.Join(p.change(ctx), p.grow(ctx), p.describeGroup(ctx))
}

func (p program) change(ctx context.Context) error {
	config := kafka.IncrementalAlterConfigsRequestConfig{
		Name: probe.Setting, Value: probe.RetentionMs, ConfigOperation: kafka.ConfigOperationSet,
	}
	resource := kafka.IncrementalAlterConfigsRequestResource{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: p.name,
		Configs: []kafka.IncrementalAlterConfigsRequestConfig{config},
	}
	altered, err := p.client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{resource},
	})
	if err != nil {
		return err
	}
	asked := kafka.DescribeConfigRequestResource{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: p.name, ConfigNames: []string{probe.Setting},
	}
	described, err := p.client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{asked},
	})
	if err != nil {
		return err
	}
	found := described.Resources[0]
	return errors.Join(altered.Resources[0].Error, found.Error, probe.ExpectSetting(found.ConfigEntries[0].ConfigValue))
}

func (p program) grow(ctx context.Context) error {
	topic := kafka.TopicPartitionsConfig{Name: p.name, Count: probe.Partitions + 1}
	grown, err := p.client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{topic}})
	if err != nil {
		return err
	}
	// The other client keeps what it knows of the topic for some seconds.
	fresh := &kafka.Client{Addr: kafka.TCP(p.servers), Transport: &kafka.Transport{}}
	metadata, err := fresh.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{p.name}})
	if err != nil {
		return err
	}
	return errors.Join(grown.Errors[p.name], probe.ExpectPartitions(len(metadata.Topics[0].Partitions)))
}

func (p program) describeGroup(ctx context.Context) error {
	listed, err := p.client.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return err
	}
	isListed := slices.ContainsFunc(listed.Groups, func(each kafka.ListGroupsResponseGroup) bool { return each.GroupID == p.name })
	if !isListed {
		return errors.New("the group is not listed")
	}
	described, err := p.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{p.name}})
	if err != nil {
		return err
	}
	if state := described.Groups[0].GroupState; state != "Empty" {
		return errors.New("the state of the group is " + state)
	}
	return described.Groups[0].Error
}

func (p program) delete(ctx context.Context) error {
	deleted, err := p.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{p.name}})
	if err != nil {
		return err
	}
	return deleted.Errors[p.name]
}
