package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// login is how a client of a secured broker authenticates.
type login struct {
	Authority   string
	Certificate string
	Mechanism   string
	User        string
	Password    string
	Token       string
	IsToken     bool
}

func (l login) options() ([]kgo.Opt, error) {
	var options []kgo.Opt
	if l.Authority != "" {
		config, err := l.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	var mechanism sasl.Mechanism
	asScram := scram.Auth{User: l.User, Pass: l.Password, IsToken: l.IsToken}
	switch l.Mechanism {
	case "":
		return options, nil
	case "PLAIN":
		mechanism = plain.Auth{User: l.User, Pass: l.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = asScram.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = asScram.AsSha512Mechanism()
	case "OAUTHBEARER":
		mechanism = oauth.Auth{Token: l.Token}.AsMechanism()
	default:
		return nil, fmt.Errorf("no mechanism %q", l.Mechanism)
	}
	return append(options, kgo.SASL(mechanism)), nil
}

func (l login) tls() (*tls.Config, error) {
	authority, err := os.ReadFile(l.Authority)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM(authority) {
		return nil, errors.New("the authority is no certificate")
	}
	if l.Certificate == "" {
		return config, nil
	}
	certificate, err := tls.LoadX509KeyPair(l.Certificate, l.Certificate)
	config.Certificates = []tls.Certificate{certificate}
	return config, err
}

func newSecured(asked command, more ...kgo.Opt) (*kgo.Client, error) {
	options, err := asked.Login.options()
	if err != nil {
		return nil, err
	}
	options = append(options, kgo.SeedBrokers(asked.Bootstrap), kgo.RequestRetries(1))
	return kgo.NewClient(append(options, more...)...)
}

func connect(ctx context.Context, asked command) (answer, error) {
	client, err := newSecured(asked)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return answer{}, client.Ping(ctx)
}

// exchange writes a record, then one in a transaction and one in a transaction that is aborted; a group reads them.
func exchange(ctx context.Context, asked command) (answer, error) {
	if err := write(ctx, asked); err != nil {
		return nil, err
	}
	if err := writeInTransactions(ctx, asked); err != nil {
		return nil, err
	}
	consumer, err := newSecured(
		asked,
		kgo.ConsumeTopics(asked.Topic),
		kgo.ConsumerGroup(asked.Topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	values := []string{}
	for len(values) < 2 {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(each *kgo.Record) { values = append(values, string(each.Value)) })
	}
	return answer{"values": values}, consumer.CommitUncommittedOffsets(ctx)
}

func write(ctx context.Context, asked command) error {
	producer, err := newSecured(asked)
	if err != nil {
		return err
	}
	defer producer.Close()
	return producer.ProduceSync(ctx, &kgo.Record{Topic: asked.Topic, Value: []byte("1")}).FirstErr()
}

func writeInTransactions(ctx context.Context, asked command) error {
	producer, err := newSecured(asked, kgo.TransactionalID("of-"+asked.Topic))
	if err != nil {
		return err
	}
	defer producer.Close()
	for value, end := range map[string]kgo.TransactionEndTry{"2": kgo.TryCommit, "aborted": kgo.TryAbort} {
		if err := producer.BeginTransaction(); err != nil {
			return err
		}
		if err := producer.ProduceSync(ctx, &kgo.Record{Topic: asked.Topic, Value: []byte(value)}).FirstErr(); err != nil {
			return err
		}
		if err := producer.EndTransaction(ctx, end); err != nil {
			return err
		}
	}
	return nil
}
