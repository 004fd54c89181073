// Alerts evaluates alert rules and queries over expositions, as a Prometheus that scrapes them
// does: with its parsers, its storage, its rule manager and its query engine. It reads one question
// from stdin and writes one answer to stdout.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"sort"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

// interval is that of scrapes and of evaluations.
const interval = time.Minute

type question struct {
	// Rules is the path of a file of rules.
	Rules string `json:"rules"`
	// Scrapes are in the order of time.
	Scrapes []scrape `json:"scrapes"`
	// Queries are asked at the end.
	Queries []string `json:"queries"`
}

// scrape is an exposition that is scraped every minute until the time, in Unix seconds.
type scrape struct {
	Text  string `json:"text"`
	From  int64  `json:"from"`
	Until int64  `json:"until"`
}

type answer struct {
	// Alerts are those that fired at the end of each scrape.
	Alerts [][]alert `json:"alerts"`
	// Series are the numbers of series that the queries gave.
	Series []int `json:"series"`
}

type alert struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func main() {
	var q question
	if err := json.NewDecoder(os.Stdin).Decode(&q); err != nil {
		fail(err)
	}
	a, err := evaluate(q)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(a); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func evaluate(q question) (a answer, err error) {
	folder, err := os.MkdirTemp("", "alerts")
	if err != nil {
		return a, err
	}
	defer os.RemoveAll(folder)
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	options := tsdb.DefaultOptions()
	// Nothing is deleted, however far the scrapes lie apart.
	options.RetentionDuration = 0
	db, err := tsdb.Open(folder, logger, nil, options, nil)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	promQL := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: logger, MaxSamples: 10_000_000, Timeout: time.Minute, Parser: promQL,
	})
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:    rules.EngineQueryFunc(engine, db),
		AppendableV2: db,
		Queryable:    db,
		Context:      context.Background(),
		NotifyFunc:   func(context.Context, string, ...*rules.Alert) {},
		Logger:       logger,
		Parser:       promQL,
	})
	groups, problems := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, q.Rules)
	if problems != nil {
		return a, errors.Join(problems...)
	}
	var now time.Time
	target := target{db: db}
	for _, s := range q.Scrapes {
		for at := s.From; at <= s.Until; at += int64(interval.Seconds()) {
			now = time.Unix(at, 0)
			if err := target.store(s.Text, now); err != nil {
				return a, err
			}
			for _, group := range groups {
				group.Eval(context.Background(), now)
			}
		}
		fired, err := firing(groups)
		if err != nil {
			return a, err
		}
		a.Alerts = append(a.Alerts, fired)
	}
	for _, text := range q.Queries {
		query, err := engine.NewInstantQuery(context.Background(), db, nil, text, now)
		if err != nil {
			return a, fmt.Errorf("%s: %w", text, err)
		}
		result := query.Exec(context.Background())
		if result.Err != nil {
			return a, fmt.Errorf("%s: %w", text, result.Err)
		}
		vector, err := result.Vector()
		if err != nil {
			return a, fmt.Errorf("%s: %w", text, err)
		}
		a.Series = append(a.Series, len(vector))
		query.Close()
	}
	return a, nil
}

// target is what is scraped.
type target struct {
	db *tsdb.DB
	// series are those of the last scrape.
	series map[uint64]labels.Labels
}

// store appends what a scrape of the text gives, and ends the series that it no longer has.
func (t *target) store(text string, at time.Time) error {
	seen := map[uint64]labels.Labels{}
	appender := t.db.Appender(context.Background())
	add := func(series labels.Labels, number float64) error {
		_, err := appender.Append(0, series, at.UnixMilli(), number)
		return err
	}
	if err := samples(text, func(series labels.Labels, number float64) error {
		seen[series.Hash()] = series
		return add(series, number)
	}); err != nil {
		return errors.Join(err, appender.Rollback())
	}
	for hash, series := range t.series {
		if _, is := seen[hash]; is {
			continue
		}
		if err := add(series, math.Float64frombits(value.StaleNaN)); err != nil {
			return errors.Join(err, appender.Rollback())
		}
	}
	t.series = seen
	return appender.Commit()
}

// samples reads an exposition.
func samples(text string, each func(labels.Labels, float64) error) error {
	parser, err := textparse.New([]byte(text), "text/plain; version=0.0.4", nil, textparse.ParserOptions{})
	if err != nil {
		return err
	}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var series labels.Labels
		parser.Labels(&series)
		_, _, number := parser.Series()
		if err := each(series, number); err != nil {
			return err
		}
	}
}

func firing(groups map[string]*rules.Group) ([]alert, error) {
	fired := []alert{}
	for _, group := range groups {
		for _, rule := range group.Rules() {
			if err := rule.LastError(); err != nil {
				return nil, fmt.Errorf("%s: %w", rule.Name(), err)
			}
			alerting, ok := rule.(*rules.AlertingRule)
			if !ok {
				continue
			}
			for _, active := range alerting.ActiveAlerts() {
				if active.State == rules.StateFiring {
					fired = append(fired, alert{rule.Name(), active.Labels.Map(), active.Annotations.Map()})
				}
			}
		}
	}
	sort.Slice(fired, func(i, j int) bool {
		return fmt.Sprint(fired[i]) < fmt.Sprint(fired[j])
	})
	return fired, nil
}
