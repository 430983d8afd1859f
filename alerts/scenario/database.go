package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

// database opens a database that takes samples of any time of a scenario in any order
// of series. It has no log, because nobody comes back to it.
func database() (db *tsdb.DB, close func() error, err error) {
	dir, err := os.MkdirTemp("", "scenario")
	if err != nil {
		return nil, nil, fmt.Errorf("make folder of the database: %w", err)
	}
	options := tsdb.DefaultOptions()
	options.WALSegmentSize = -1
	options.MinBlockDuration = (60 * 24 * time.Hour).Milliseconds()
	options.MaxBlockDuration = options.MinBlockDuration
	options.RetentionDuration = 0
	db, err = tsdb.Open(dir, nil, nil, options, tsdb.NewDBStats())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open database: %w", err), os.RemoveAll(dir))
	}
	db.DisableCompactions()
	return db, func() error { return errors.Join(db.Close(), os.RemoveAll(dir)) }, nil
}

// prepare makes groups that Prometheus evaluates.
func prepare(groups []Group, db *tsdb.DB, engine *promql.Engine) []*rules.Group {
	manager := rules.NewManager(&rules.ManagerOptions{
		Context: context.Background(), ExternalURL: &url.URL{}, AppendableV2: db, Queryable: db, QueryFunc: rules.EngineQueryFunc(engine, db),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Parser: NewParser(), GroupLoader: loader{groups},
	})
	loaded, _ := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, "rules")
	var out []*rules.Group
	for _, g := range groups {
		group := loaded[rules.GroupKey("rules", g.Name)]
		for _, r := range group.AlertingRules() {
			r.SetRestored(true) // there is nothing to restore, and before that no alert is recorded
		}
		out = append(out, group)
	}
	return out
}
