// Command interop does with franz-go what each line of standard input asks, and answers it with one line of JSON.
// Cells of records travel in base64, and null stays null. What the broker refuses is answered with Kafka's name of
// the error. With an argument it is a member of a group instead.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const timeout = 60 * time.Second

type command struct {
	Do           string
	Bootstrap    string
	Topic        string
	Partition    int32
	Partitions   int
	Replication  int16
	ValidateOnly bool
	Configs      map[string]*string
	Set          map[string]string
	Delete       []string
	At           string
	Before       int64
	Compression  string
	Acks         string
	Records      []record
	Count        int
	Offset       int64
	Time         *int64
	Login        login
}

type answer map[string]any

type action func(context.Context, command) (answer, error)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "sharer" {
		runSharer(os.Args[2])
		return
	}
	if len(os.Args) > 1 {
		runMember(os.Args[1])
		return
	}
	actions := map[string]action{
		"create":          asAdmin(create),
		"delete":          asAdmin(remove),
		"list":            asAdmin(list),
		"describe":        asAdmin(describe),
		"addPartitions":   asAdmin(addPartitions),
		"alterConfigs":    asAdmin(alterConfigs),
		"describeConfigs": describeConfigs,
		"deleteRecords":   asAdmin(deleteRecords),
		"logSizes":        asAdmin(logSizes),
		"offset":          asAdmin(offset),
		"produce":         produce,
		"consume":         consume,
		"connect":         connect,
		"exchange":        exchange,
		"floodStart":      startFlood,
		"floodStop":       stopFlood,
	}
	commands := bufio.NewReader(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := commands.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(run(actions, line)); err != nil {
			log.Fatal(err)
		}
	}
}

func run(actions map[string]action, line []byte) answer {
	var asked command
	if err := json.Unmarshal(line, &asked); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	given, err := actions[asked.Do](ctx, asked)
	if err != nil {
		return answer{"error": errorName(err), "message": err.Error()}
	}
	return given
}

func errorName(err error) string {
	var refused *kerr.Error
	if errors.As(err, &refused) {
		return refused.Message
	}
	return "CLIENT_ERROR"
}
