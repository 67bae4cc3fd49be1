package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for linkname

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	pollTime         = 50 * time.Millisecond
	recordsMax       = 2000
	rebalanceTimeout = 10 * time.Second
)

type memberOptions struct {
	Client              string
	BootstrapServers    string `json:"bootstrap_servers"`
	Topic               string
	Group               string
	Name                string
	SessionTimeoutMs    int `json:"session_timeout_ms"`
	HeartbeatIntervalMs int `json:"heartbeat_interval_ms"`
}

// member is one of a group in a process of its own: reads, commits what it read, and writes down all that happens to
// it, as tests/support/groups/member.py does. It leaves its group when it reads a line, and is gone when whoever started
// it is.
type member struct {
	topic              string
	sessionNanoseconds int64

	// Rebalances happen on a goroutine of the client, though never while records are processed.
	lock         sync.Mutex
	owned        map[int32]bool
	generation   int32
	uncommitted  map[int32]kgo.EpochOffset
	events       *json.Encoder
	awakeAt      int64
	hasOverslept bool
}

// The clock of the machine, which members in other languages read too.
//
//go:linkname monotonicNanoseconds runtime.nanotime
func monotonicNanoseconds() int64

func runMember(text string) {
	var options memberOptions
	if err := json.Unmarshal([]byte(text), &options); err != nil {
		log.Fatal(err)
	}
	var isToldToLeave atomic.Bool
	go func() {
		if _, err := bufio.NewReader(os.Stdin).ReadBytes('\n'); err != nil {
			os.Exit(1)
		}
		isToldToLeave.Store(true)
	}()
	m := &member{
		topic:              options.Topic,
		sessionNanoseconds: int64(options.SessionTimeoutMs) * int64(time.Millisecond),
		owned:              map[int32]bool{},
		generation:         -1,
		uncommitted:        map[int32]kgo.EpochOffset{},
		events:             json.NewEncoder(os.Stdout),
		awakeAt:            monotonicNanoseconds(),
	}
	client, err := kgo.NewClient(m.settings(options)...)
	if err != nil {
		log.Fatal(err)
	}
	for !isToldToLeave.Load() {
		m.process(client, poll(client))
		m.commit(client)
		client.AllowRebalance()
	}
	// Nothing is processed any more, and the broker does not know it yet.
	m.giveUp(client, "revoked", map[string][]int32{m.topic: m.partitions()})
	client.CloseAllowingRebalance()
}

// stayAwake notices whether the member stood still for a session. It is out of its group then, although its client may
// have to learn that yet.
func (m *member) stayAwake() {
	now := monotonicNanoseconds()
	m.hasOverslept = m.hasOverslept || now-m.awakeAt > m.sessionNanoseconds
	m.awakeAt = now
}

func (m *member) settings(options memberOptions) []kgo.Opt {
	settings := []kgo.Opt{
		kgo.SeedBrokers(options.BootstrapServers),
		kgo.ConsumerGroup(options.Group),
		kgo.ClientID(options.Name),
		kgo.ConsumeTopics(options.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(time.Duration(options.SessionTimeoutMs) * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(options.HeartbeatIntervalMs) * time.Millisecond),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(m.assigned),
		kgo.OnPartitionsRevoked(func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			m.giveUp(client, "revoked", partitions)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			m.giveUp(client, "lost", partitions)
		}),
	}
	switch options.Client {
	case "franz-cooperative":
		return append(settings, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	case "franz-range":
		return append(settings, kgo.Balancers(kgo.RangeBalancer()))
	case "franz-regex":
		// Later options win, and the pattern is resolved by the broker.
		settings = append(settings, kgo.ConsumeRegex(), kgo.ConsumeTopics(options.Topic+".*"))
	}
	return append(settings, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
}

func (m *member) assigned(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.hasOverslept = false
	given := partitions[m.topic]
	for _, partition := range given {
		m.owned[partition] = true
	}
	m.write(client, "assigned", append([]int32{}, given...))
}

func (m *member) giveUp(client *kgo.Client, how string, partitions map[string][]int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.stayAwake()
	if m.hasOverslept {
		how = "lost"
	}
	var givenUp []int32
	for _, partition := range partitions[m.topic] {
		if m.owned[partition] {
			givenUp = append(givenUp, partition)
		}
		delete(m.owned, partition)
		delete(m.uncommitted, partition)
	}
	if givenUp != nil {
		m.write(client, how, givenUp)
	}
}

func (m *member) partitions() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	var partitions []int32
	for partition := range m.owned {
		partitions = append(partitions, partition)
	}
	slices.Sort(partitions)
	return partitions
}

func poll(client *kgo.Client) kgo.Fetches {
	ctx, cancel := context.WithTimeout(context.Background(), pollTime)
	defer cancel()
	fetches := client.PollRecords(ctx, recordsMax)
	for _, each := range fetches.Errors() {
		// A session that ended is begun anew by the client.
		var ended *kgo.ErrGroupSession
		if !errors.Is(each.Err, context.DeadlineExceeded) && !errors.As(each.Err, &ended) {
			log.Fatal(each.Err)
		}
	}
	return fetches
}

func (m *member) process(client *kgo.Client, fetches kgo.Fetches) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.stayAwake()
	var ranges [][3]int64
	fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
		if fetched.Topic != m.topic || len(fetched.Records) == 0 {
			return
		}
		first := len(ranges)
		for _, record := range fetched.Records {
			if last := len(ranges) - 1; last >= first && ranges[last][2] == record.Offset-1 {
				ranges[last][2] = record.Offset
			} else {
				ranges = append(ranges, [3]int64{int64(fetched.Partition), record.Offset, record.Offset})
			}
			m.uncommitted[fetched.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
		}
	})
	if ranges != nil {
		m.write(client, "processed", ranges)
	}
}

func (m *member) commit(client *kgo.Client) {
	committing := map[int32]kgo.EpochOffset{}
	m.lock.Lock()
	for partition, offset := range m.uncommitted {
		committing[partition] = offset
	}
	m.lock.Unlock()
	if len(committing) == 0 {
		return
	}
	err := commit(client, map[string]map[int32]kgo.EpochOffset{m.topic: committing})
	m.lock.Lock()
	defer m.lock.Unlock()
	if err != nil {
		m.write(client, "refused", err.Error())
		return
	}
	var offsets [][2]int64
	for partition, offset := range committing {
		offsets = append(offsets, [2]int64{int64(partition), offset.Offset})
		if m.uncommitted[partition] == offset {
			delete(m.uncommitted, partition)
		}
	}
	m.write(client, "committed", offsets)
}

func commit(client *kgo.Client, offsets map[string]map[int32]kgo.EpochOffset) error {
	var refusal error
	client.CommitOffsetsSync(context.Background(), offsets, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		refusal = err
		if err != nil {
			return
		}
		for _, topic := range response.Topics {
			for _, partition := range topic.Partitions {
				refusal = errors.Join(refusal, kerr.ErrorForCode(partition.ErrorCode))
			}
		}
	})
	return refusal
}

func (m *member) write(client *kgo.Client, event string, fields any) {
	// Whoever has been put out of its group still acts in the generation that it was in.
	if _, generation := client.GroupMetadata(); generation > 0 {
		m.generation = generation
	}
	if err := m.events.Encode([]any{event, monotonicNanoseconds(), m.generation, fields}); err != nil {
		log.Fatal(err)
	}
}
