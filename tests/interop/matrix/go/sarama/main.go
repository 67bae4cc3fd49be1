// Command sarama tries sarama.
package main

import (
	"context"
	"errors"
	"strings"

	"github.com/IBM/sarama"

	"headwater/matrix/probe"
)

var codecs = []sarama.CompressionCodec{
	sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
}

type program struct {
	servers []string
	name    string
}

func main() {
	probe.Run(func(servers, name string) probe.Steps {
		p := program{strings.Split(servers, ","), name}
		return probe.Steps{
			"create":      p.create,
			"produce":     p.produce,
			"consume":     p.consume,
			"group":       p.group,
			"transaction": p.transaction,
			"admin":       p.administer,
			"delete":      p.delete,
		}
	})
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	return config
}

func (p program) create(context.Context) error {
	admin, err := sarama.NewClusterAdmin(p.servers, settings())
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := admin.CreateTopic(p.name, &sarama.TopicDetail{NumPartitions: probe.Partitions, ReplicationFactor: 1}, false); err != nil {
		return err
	}
	topics, err := admin.ListTopics()
	if err != nil {
		return err
	}
	if topics[p.name].NumPartitions != probe.Partitions {
		return errors.New("the topic has another number of partitions")
	}
	return nil
}

func (p program) produce(context.Context) error {
	for index, codec := range codecs {
		config := settings()
		config.Producer.Compression = codec
		producer, err := sarama.NewSyncProducer(p.servers, config)
		if err != nil {
			return err
		}
		if err := producer.SendMessages(p.messages(probe.Share(index, len(codecs)))); err != nil {
			return err
		}
		if err := producer.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (p program) messages(values []string) []*sarama.ProducerMessage {
	var messages []*sarama.ProducerMessage
	for number, value := range values {
		partition := int32(number % probe.Partitions)
		messages = append(messages, &sarama.ProducerMessage{Topic: p.name, Partition: partition, Value: sarama.StringEncoder(value)})
	}
	return messages
}

func (p program) consume(ctx context.Context) error {
	return p.readAssigned(ctx, settings(), probe.Values())
}

func (p program) readAssigned(ctx context.Context, config *sarama.Config, expected []string) error {
	consumer, err := sarama.NewConsumer(p.servers, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	read := make(chan string)
	for number := range int32(probe.Partitions) {
		partition, err := consumer.ConsumePartition(p.name, number, sarama.OffsetOldest)
		if err != nil {
			return err
		}
		defer partition.Close()
		go func() {
			for message := range partition.Messages() {
				select {
				case read <- string(message.Value):
				case <-ctx.Done():
				}
			}
		}()
	}
	var values []string
	for len(values) < len(expected) {
		select {
		case value := <-read:
			values = append(values, value)
		case <-ctx.Done():
			return probe.Expect(values, expected...)
		}
	}
	return probe.Expect(values, expected...)
}

// reader reads as a member of a group until it is told to stop.
type reader struct {
	read chan string
	done chan struct{}
}

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			session.MarkMessage(message, "")
			r.read <- string(message.Value)
		case <-r.done:
			session.Commit()
			return nil
		case <-session.Context().Done():
			return nil
		}
	}
}

func (p program) group(ctx context.Context) error {
	group, err := sarama.NewConsumerGroup(p.servers, p.name, settings())
	if err != nil {
		return err
	}
	r := reader{make(chan string), make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- group.Consume(ctx, []string{p.name}, r) }()
	var values []string
	for len(values) < probe.Records {
		select {
		case value := <-r.read:
			values = append(values, value)
		case err := <-ended:
			return errors.Join(err, errors.New("the session ended early"))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	close(r.done)
	if err := errors.Join(<-ended, group.Close(), probe.Expect(values, probe.Values()...)); err != nil {
		return err
	}
	return p.expectCommitted()
}

func (p program) expectCommitted() error {
	admin, err := sarama.NewClusterAdmin(p.servers, settings())
	if err != nil {
		return err
	}
	defer admin.Close()
	offsets, err := admin.ListConsumerGroupOffsets(p.name, map[string][]int32{p.name: {0, 1}})
	if err != nil {
		return err
	}
	var sum int64
	for _, block := range offsets.Blocks[p.name] {
		sum += block.Offset
	}
	return probe.ExpectCommitted(sum)
}

func (p program) transaction(ctx context.Context) error {
	config := settings()
	config.Producer.Transaction.ID = p.name
	producer, err := sarama.NewSyncProducer(p.servers, config)
	if err != nil {
		return err
	}
	for _, each := range []struct {
		value string
		end   func() error
	}{{probe.Aborted, producer.AbortTxn}, {probe.Committed, producer.CommitTxn}} {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		if err := producer.SendMessages(p.messages([]string{each.value})); err != nil {
			return err
		}
		if err := each.end(); err != nil {
			return err
		}
	}
	if err := producer.Close(); err != nil {
		return err
	}
	committed := settings()
	committed.Consumer.IsolationLevel = sarama.ReadCommitted
	return p.readAssigned(ctx, committed, append(probe.Values(), probe.Committed))
}

func (p program) administer(context.Context) error {
	admin, err := sarama.NewClusterAdmin(p.servers, settings())
	if err != nil {
		return err
	}
	defer admin.Close()
	return errors.Join(p.change(admin), p.grow(admin), p.describeGroup(admin), p.deleteRecords(admin))
}

func (p program) change(admin sarama.ClusterAdmin) error {
	value := probe.RetentionMs
	entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
	change := map[string]sarama.IncrementalAlterConfigsEntry{probe.Setting: entry}
	if err := admin.IncrementalAlterConfig(sarama.TopicResource, p.name, change, false); err != nil {
		return err
	}
	asked := sarama.ConfigResource{Type: sarama.TopicResource, Name: p.name, ConfigNames: []string{probe.Setting}}
	entries, err := admin.DescribeConfig(asked)
	if err != nil {
		return err
	}
	return probe.ExpectSetting(entries[0].Value)
}

func (p program) grow(admin sarama.ClusterAdmin) error {
	if err := admin.CreatePartitions(p.name, probe.Partitions+1, nil, false); err != nil {
		return err
	}
	topics, err := admin.DescribeTopics([]string{p.name})
	if err != nil {
		return err
	}
	return probe.ExpectPartitions(len(topics[0].Partitions))
}

func (p program) describeGroup(admin sarama.ClusterAdmin) error {
	groups, err := admin.ListConsumerGroups()
	if err != nil {
		return err
	}
	if _, isListed := groups[p.name]; !isListed {
		return errors.New("the group is not listed")
	}
	described, err := admin.DescribeConsumerGroups([]string{p.name})
	if err != nil {
		return err
	}
	if described[0].State != "Empty" {
		return errors.New("the state of the group is " + described[0].State)
	}
	return nil
}

func (p program) deleteRecords(admin sarama.ClusterAdmin) error {
	if err := admin.DeleteRecords(p.name, map[int32]int64{1: 10}); err != nil {
		return err
	}
	client, err := sarama.NewClient(p.servers, settings())
	if err != nil {
		return err
	}
	defer client.Close()
	start, err := client.GetOffset(p.name, 1, sarama.OffsetOldest)
	if start != 10 {
		return errors.Join(err, errors.New("the records are not deleted"))
	}
	return err
}

func (p program) delete(context.Context) error {
	admin, err := sarama.NewClusterAdmin(p.servers, settings())
	if err != nil {
		return err
	}
	defer admin.Close()
	return errors.Join(admin.DeleteConsumerGroup(p.name), admin.DeleteTopic(p.name))
}
