package main

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// asAdmin gives what an administrator does a client of its own, and closes it afterwards.
func asAdmin(do func(context.Context, *kadm.Client, command) (answer, error)) action {
	return func(ctx context.Context, asked command) (answer, error) {
		client, err := kadm.NewOptClient(kgo.SeedBrokers(asked.Bootstrap))
		if err != nil {
			return nil, err
		}
		defer client.Close()
		return do(ctx, client, asked)
	}
}

func create(ctx context.Context, client *kadm.Client, asked command) (answer, error) {
	ask := client.CreateTopics
	if asked.ValidateOnly {
		ask = client.ValidateCreateTopics
	}
	created, err := ask(ctx, int32(asked.Partitions), asked.Replication, asked.Configs, asked.Topic)
	if err != nil {
		return nil, err
	}
	return answer{}, created[asked.Topic].Err
}

func remove(ctx context.Context, client *kadm.Client, asked command) (answer, error) {
	_, err := client.DeleteTopic(ctx, asked.Topic)
	return answer{}, err
}

func list(ctx context.Context, client *kadm.Client, _ command) (answer, error) {
	topics, err := client.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	return answer{"topics": topics.Names()}, nil
}

func describe(ctx context.Context, client *kadm.Client, asked command) (answer, error) {
	topics, err := client.ListTopics(ctx, asked.Topic)
	if err != nil {
		return nil, err
	}
	topic := topics[asked.Topic]
	partitions := []answer{}
	for _, each := range topic.Partitions.Sorted() {
		partitions = append(partitions, answer{"leader": each.Leader, "replicas": each.Replicas, "isr": each.ISR})
	}
	return answer{"id": topic.ID.String(), "partitions": partitions}, topic.Err
}

func addPartitions(ctx context.Context, client *kadm.Client, asked command) (answer, error) {
	changed, err := client.UpdatePartitions(ctx, asked.Partitions, asked.Topic)
	if err != nil {
		return nil, err
	}
	return answer{}, changed[asked.Topic].Err
}

func alterConfigs(ctx context.Context, client *kadm.Client, asked command) (answer, error) {
	var changes []kadm.AlterConfig
	for name, value := range asked.Set {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	for _, name := range asked.Delete {
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	changed, err := client.AlterTopicConfigs(ctx, changes, asked.Topic)
	if err != nil {
		return nil, err
	}
	return answer{}, changed[0].Err
}

// describeConfigs makes its request by hand, because only so can documentation be asked for.
func describeConfigs(ctx context.Context, asked command) (answer, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(asked.Bootstrap))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeTopic
	resource.ResourceName = asked.Topic
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Resources = append(request.Resources, resource)
	request.IncludeSynonyms = true
	request.IncludeDocumentation = true
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	described := response.Resources[0]
	configs := answer{}
	for _, each := range described.Configs {
		configs[each.Name] = answer{
			"value":      each.Value,
			"source":     each.Source.String(),
			"documented": each.Documentation != nil && *each.Documentation != "",
		}
	}
	return answer{"configs": configs}, kerr.ErrorForCode(described.ErrorCode)
}

func deleteRecords(ctx context.Context, client *kadm.Client, asked command) (answer, error) {
	before := kadm.Offsets{}
	before.AddOffset(asked.Topic, asked.Partition, asked.Before, -1)
	deleted, err := client.DeleteRecords(ctx, before)
	if err != nil {
		return nil, err
	}
	result, _ := deleted.Lookup(asked.Topic, asked.Partition)
	return answer{"start": result.LowWatermark}, result.Err
}

func logSizes(ctx context.Context, client *kadm.Client, asked command) (answer, error) {
	topics, err := client.ListTopics(ctx, asked.Topic)
	if err != nil {
		return nil, err
	}
	described, err := client.DescribeAllLogDirs(ctx, topics.TopicsSet())
	if err != nil {
		return nil, err
	}
	sizes := make([]int64, len(topics[asked.Topic].Partitions))
	for _, directories := range described {
		directories.EachPartition(func(each kadm.DescribedLogDirPartition) { sizes[each.Partition] += each.Size })
	}
	return answer{"sizes": sizes}, nil
}

func offset(ctx context.Context, client *kadm.Client, asked command) (answer, error) {
	listed, err := listOffsets(ctx, client, asked)
	if err != nil {
		return nil, err
	}
	found, _ := listed.Lookup(asked.Topic, asked.Partition)
	return answer{"offset": found.Offset, "timestamp": found.Timestamp}, found.Err
}

func listOffsets(ctx context.Context, client *kadm.Client, asked command) (kadm.ListedOffsets, error) {
	switch asked.At {
	case "earliest":
		return client.ListStartOffsets(ctx, asked.Topic)
	case "latest":
		return client.ListEndOffsets(ctx, asked.Topic)
	case "maxTimestamp":
		return client.ListMaxTimestampOffsets(ctx, asked.Topic)
	}
	timestamp, err := strconv.ParseInt(asked.At, 10, 64)
	if err != nil {
		return nil, err
	}
	return client.ListOffsetsAfterMilli(ctx, timestamp, asked.Topic)
}
