package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const requestBytesMax = 16 << 20

type header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

type record struct {
	Offset    int64    `json:"offset"`
	Timestamp *int64   `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
}

// newProducer gives one that is idempotent, as it is by default, unless acks forbid it.
func newProducer(asked command, more ...kgo.Opt) (*kgo.Client, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(asked.Bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[asked.Compression]),
		kgo.ProducerBatchMaxBytes(requestBytesMax),
	}
	switch asked.Acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	return kgo.NewClient(append(options, more...)...)
}

func produce(ctx context.Context, asked command) (answer, error) {
	client, err := newProducer(asked)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var sent []*kgo.Record
	for _, each := range asked.Records {
		produced := &kgo.Record{Topic: asked.Topic, Partition: asked.Partition, Key: each.Key, Value: each.Value}
		if each.Timestamp != nil {
			produced.Timestamp = time.UnixMilli(*each.Timestamp)
		}
		for _, each := range each.Headers {
			produced.Headers = append(produced.Headers, kgo.RecordHeader{Key: each.Name, Value: each.Value})
		}
		sent = append(sent, produced)
	}
	offsets := []int64{}
	for _, each := range client.ProduceSync(ctx, sent...) {
		if each.Err != nil {
			return nil, each.Err
		}
		offsets = append(offsets, each.Record.Offset)
	}
	return answer{"offsets": offsets}, nil
}

func consume(ctx context.Context, asked command) (answer, error) {
	start := kgo.NewOffset().At(asked.Offset)
	if asked.Time != nil {
		start = kgo.NewOffset().AfterMilli(*asked.Time)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(asked.Bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{asked.Topic: {asked.Partition: start}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []record{}
	for len(records) < asked.Count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(each *kgo.Record) { records = append(records, read(each)) })
	}
	return answer{"records": records}, nil
}

func read(from *kgo.Record) record {
	timestamp := from.Timestamp.UnixMilli()
	headers := []header{}
	for _, each := range from.Headers {
		headers = append(headers, header{each.Key, each.Value})
	}
	return record{from.Offset, &timestamp, from.Key, from.Value, headers}
}
