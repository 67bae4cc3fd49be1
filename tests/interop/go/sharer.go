package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"math/rand"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	sharerPoll    = 200 * time.Millisecond
	sharerTimeout = 20 * time.Second
	sharerRun     = 25
)

type sharerOptions struct {
	Name             string
	Directory        string
	BootstrapServers string `json:"bootstrap_servers"`
	Topic            string
	Group            string `json:"share_group"`
}

// sharer is one member of a share group in a process of its own: accepts most of what it gets, releases and rejects some,
// and writes a history as tests/faults/queues/sharer.py does.
type sharer struct {
	options    sharerOptions
	history    *json.Encoder
	operations int
	hasFailed  atomic.Bool
	verdicts   *rand.Rand
}

func runSharer(text string) {
	s := &sharer{verdicts: rand.New(rand.NewSource(int64(len(text))))}
	if err := json.Unmarshal([]byte(text), &s.options); err != nil {
		log.Fatal(err)
	}
	var isToldToLeave atomic.Bool
	go func() {
		if _, err := bufio.NewReader(os.Stdin).ReadBytes('\n'); err != nil {
			os.Exit(1)
		}
		isToldToLeave.Store(true)
	}()
	file, err := os.Create(filepath.Join(s.options.Directory, s.options.Name+".jsonl"))
	if err != nil {
		log.Fatal(err)
	}
	s.history = json.NewEncoder(file)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(s.options.BootstrapServers),
		kgo.ClientID(s.options.Name),
		kgo.ShareGroup(s.options.Group),
		kgo.ConsumeTopics(s.options.Topic),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if !results.Ok() {
				s.hasFailed.Store(true)
			}
		}),
	)
	if err != nil {
		log.Fatal(err)
	}
	for !isToldToLeave.Load() {
		s.turn(client)
	}
	s.write("invoke", "depart", s.operations, map[string]any{})
	s.write("ok", "depart", s.operations, nil)
	client.Close()
}

func (s *sharer) turn(client *kgo.Client) {
	fetch := s.operations
	s.operations++
	s.write("invoke", "share", fetch, map[string]any{"records": [][]any{}})
	ctx, cancel := context.WithTimeout(context.Background(), sharerPoll)
	records := client.PollFetches(ctx).Records()
	cancel()
	given := [][]any{}
	said := map[string][][]any{}
	verdict, status := "accept", kgo.AckAccept
	for position, record := range records {
		if position%sharerRun == 0 {
			verdict, status = s.verdict()
		}
		place := []any{record.Partition, record.Offset, record.DeliveryCount()}
		given = append(given, append(append([]any{}, place...), nil))
		said[verdict] = append(said[verdict], place)
		record.Ack(status)
	}
	s.write("ok", "share", fetch, map[string]any{"records": given})
	if len(records) == 0 {
		return
	}
	first := s.operations
	for each, places := range said {
		s.write("invoke", "settle", s.operations, map[string]any{"verdict": each, "records": places})
		s.operations++
	}
	ctx, cancel = context.WithTimeout(context.Background(), sharerTimeout)
	err := client.FlushAcks(ctx)
	cancel()
	outcome := "ok"
	if err != nil || s.hasFailed.Swap(false) {
		// Of several partitions, or of an earlier attempt, some may count.
		outcome = "info"
	}
	for number := first; number < s.operations; number++ {
		s.write(outcome, "settle", number, nil)
	}
}

func (s *sharer) verdict() (string, kgo.AckStatus) {
	switch chance := s.verdicts.Float64(); {
	case chance < 0.1:
		return "release", kgo.AckRelease
	case chance < 0.13:
		return "reject", kgo.AckReject
	}
	return "accept", kgo.AckAccept
}

func (s *sharer) write(kind string, operation string, id int, fields map[string]any) {
	line := map[string]any{
		"process":   s.options.Name,
		"id":        id,
		"time_ns":   monotonicNanoseconds(),
		"type":      kind,
		"operation": operation,
	}
	if kind == "invoke" {
		line["group"], line["topic"], line["member"] = s.options.Group, s.options.Topic, s.options.Name
		line["is_exact"], line["wall_ms"] = false, 0
	}
	for name, value := range fields {
		line[name] = value
	}
	if err := s.history.Encode(line); err != nil {
		log.Fatal(err)
	}
}
