// Package probe is what the programs of the matrix have in common. A program's arguments are the bootstrap servers, a name
// that is used for the topic, the group and the transactional id, and the steps to try. It prints one line per step: its
// name, a tab, and `ok` or what went wrong.
package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	Partitions  = 2
	Records     = 100
	Aborted     = "aborted"
	Committed   = "committed"
	Setting     = "retention.ms"
	RetentionMs = "123456789"

	timeout = 30 * time.Second
)

// Steps is what a program can do, by the names of the steps.
type Steps map[string]func(context.Context) error

// Run tries the steps that the arguments name.
func Run(program func(servers, name string) Steps) {
	steps := program(os.Args[1], os.Args[2])
	for _, step := range os.Args[3:] {
		outcome := "ok"
		if err := try(steps[step]); err != nil {
			outcome = strings.Join(strings.Fields(err.Error()), " ")
		}
		fmt.Printf("%s\t%s\n", step, outcome)
	}
}

func try(step func(context.Context) error) error {
	if step == nil {
		return errors.New("the program does not know this step")
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return step(ctx)
}

// Values are those of all records.
func Values() []string {
	values := make([]string, Records)
	for number := range values {
		values[number] = fmt.Sprintf("value-%d", number)
	}
	return values
}

// Share gives the values that the codec of that index compresses.
func Share(index, codecs int) []string {
	var share []string
	for number, value := range Values() {
		if number%codecs == index {
			share = append(share, value)
		}
	}
	return share
}

// Expect checks that the values that were read are these, in any order.
func Expect(read []string, expected ...string) error {
	slices.Sort(read)
	slices.Sort(expected)
	if !slices.Equal(read, expected) {
		return fmt.Errorf("%d records were read instead of %d, or others", len(read), len(expected))
	}
	return nil
}

// ExpectSetting checks the value of the setting that was changed.
func ExpectSetting(value string) error {
	if value != RetentionMs {
		return fmt.Errorf("the setting is %q", value)
	}
	return nil
}

// ExpectPartitions checks the number of partitions, of which one was added.
func ExpectPartitions(count int) error {
	if count != Partitions+1 {
		return fmt.Errorf("there are %d partitions", count)
	}
	return nil
}

// ExpectCommitted checks the sum of a group's committed offsets.
func ExpectCommitted(sum int64) error {
	if sum != Records {
		return fmt.Errorf("%d records are committed", sum)
	}
	return nil
}
