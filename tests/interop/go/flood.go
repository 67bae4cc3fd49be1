package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// flood writes numbered records without pause, from start to stop: load under which a broker is killed.
type flood struct {
	acked   atomic.Int64
	failure atomic.Pointer[error]
	stop    chan struct{}
	done    sync.WaitGroup
}

var current *flood

func startFlood(_ context.Context, asked command) (answer, error) {
	client, err := newProducer(
		asked,
		kgo.MaxBufferedRecords(1000),
		kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
		// Small batches make many requests, so that a kill finds some in flight.
		kgo.ProducerBatchMaxBytes(1024),
	)
	if err != nil {
		return nil, err
	}
	current = &flood{stop: make(chan struct{})}
	current.done.Go(func() { current.run(client, asked) })
	return answer{}, nil
}

func (f *flood) run(client *kgo.Client, asked command) {
	defer client.Close()
	defer flush(client)
	for number := int64(0); f.failure.Load() == nil; number++ {
		select {
		case <-f.stop:
			return
		default:
		}
		value := fmt.Appendf(nil, "%0100d", number)
		produced := &kgo.Record{Topic: asked.Topic, Partition: asked.Partition, Value: value}
		client.Produce(context.Background(), produced, func(_ *kgo.Record, err error) {
			if err != nil {
				f.failure.CompareAndSwap(nil, &err)
				return
			}
			f.acked.Add(1)
		})
	}
}

func flush(client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	// Whatever is not flushed by then fails when the client closes.
	_ = client.Flush(ctx)
}

func stopFlood(context.Context, command) (answer, error) {
	close(current.stop)
	current.done.Wait()
	if failure := current.failure.Load(); failure != nil {
		return nil, *failure
	}
	return answer{"acked": current.acked.Load()}, nil
}
