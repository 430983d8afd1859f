package boards

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// The colours: blue informs, green, orange and red judge. A panel that judges
// says it in words too, for readers who do not tell the colours apart.
const (
	blue   = "blue"
	green  = "green"
	orange = "orange"
	red    = "red"
	grey   = "text"
)

// about is what a reader at 3 am needs to know of a panel.
type about struct {
	asks string // the question it answers
	good string // what it looks like when all is well
	act  string // what to do when it does not
	none string // why there may be nothing to see; empty when there always is
}

var metricName = regexp.MustCompile(`\b(?:inferbeat_\w+|ALERTS|go_\w+|process_\w+|scrape_\w+)\b`)

// description is the text behind the panel's (i), in Markdown.
func (a about) description(queries []query) string {
	var names []string
	for _, q := range queries {
		for _, name := range metricName.FindAllString(q.expr, -1) {
			if name = strings.TrimSuffix(name, "_bucket"); !slices.Contains(names, "`"+name+"`") {
				names = append(names, "`"+name+"`")
			}
		}
	}
	return fmt.Sprintf("**%s**\n\n**Good:** %s\n\n**If not:** %s\n\nMetrics: %s", a.asks, a.good, a.act, strings.Join(names, ", "))
}

func (a about) noValue() string {
	if a.none != "" {
		return a.none
	}
	return "No data: is inferbeat scraped, and do the variables above select something?"
}

// query is an expression and the name of its lines.
type query struct {
	expr, legend string
	exemplars    bool
	step         string // shortest step; empty for Grafana's own
}

// line is a query without exemplars.
func line(expr, legend string) query { return query{expr: expr, legend: legend} }

// limitLegend begins the name of every line that is a limit of the
// configuration, which is drawn dashed.
const limitLegend = "limit"

func p[T any](v T) *T { return &v }

func datasource() common.DataSourceRef {
	return common.DataSourceRef{Type: p("prometheus"), Uid: p("${" + varDatasource + "}")}
}

func over(q query) *prometheus.DataqueryBuilder {
	b := prometheus.NewDataqueryBuilder().Datasource(datasource()).EditorMode(prometheus.QueryEditorModeCode).
		Expr(q.expr).LegendFormat(q.legend).Exemplar(q.exemplars).Range()
	if q.step != "" {
		b = b.Interval(q.step)
	}
	return b
}

func now(q query) *prometheus.DataqueryBuilder {
	return over(query{expr: q.expr, legend: q.legend}).Instant()
}

// step is a colour from a value on.
type step struct {
	from  float64
	color string
}

// steps are thresholds; the base colour holds below the first step.
func steps(base string, from ...step) *dashboard.ThresholdsConfigBuilder {
	list := []dashboard.Threshold{{Color: base}}
	for _, s := range from {
		list = append(list, dashboard.Threshold{Value: p(s.from), Color: s.color})
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(list)
}

func colorBy(mode dashboard.FieldColorModeId) *dashboard.FieldColorBuilder {
	return dashboard.NewFieldColorBuilder().Mode(mode)
}

func legend(calcs ...string) *common.VizLegendOptionsBuilder {
	b := common.NewVizLegendOptionsBuilder().ShowLegend(true).Placement(common.LegendPlacementBottom).Calcs(calcs)
	if len(calcs) > 0 {
		return b.DisplayMode(common.LegendDisplayModeTable)
	}
	return b.DisplayMode(common.LegendDisplayModeList)
}

func tooltip() *common.VizTooltipOptionsBuilder {
	return common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)
}

func property(id string, value any) dashboard.DynamicConfigValue {
	return dashboard.DynamicConfigValue{Id: id, Value: value}
}

// dashed is how a limit looks.
func dashed() []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{
		property("custom.lineStyle", map[string]any{"fill": "dash", "dash": []int{8, 6}}),
		property("custom.fillOpacity", 0), property("custom.showPoints", "never"), property("custom.lineWidth", 1),
		property("color", map[string]any{"mode": "fixed", "fixedColor": red}),
	}
}

// timeSeries draws lines over time, with 0 in sight.
func timeSeries(title string, a about, unit string, queries ...query) *timeseries.PanelBuilder {
	return zoomed(title, a, unit, queries...).AxisSoftMin(0)
}

// zoomed draws lines over time as large as they fit: a change of five percent is
// news at night, and flat on an axis that begins at 0.
func zoomed(title string, a about, unit string, queries ...query) *timeseries.PanelBuilder {
	b := timeseries.NewPanelBuilder().Title(title).Description(a.description(queries)).NoValue(a.noValue()).
		Datasource(datasource()).Unit(unit).Span(12).Height(8).
		LineWidth(2).FillOpacity(8).ShowPoints(common.VisibilityModeNever).
		SpanNulls(common.BoolOrFloat64{Bool: p(false)}).
		ColorScheme(colorBy(dashboard.FieldColorModeIdPaletteClassic)).Thresholds(steps(blue)).
		Legend(legend()).Tooltip(tooltip()).
		OverrideByRegexp("/^"+limitLegend+" .*/", dashed())
	for _, q := range queries {
		b = b.WithTarget(over(q))
	}
	return b
}

// bars draws counts in windows over time, stacked; the step is the window, so that
// no event stands in two bars.
func bars(title string, a about, unit string, queries ...query) *timeseries.PanelBuilder {
	var disjoint []query
	for _, q := range queries {
		q.step = "$" + varWindow
		disjoint = append(disjoint, q)
	}
	return timeSeries(title, a, unit, disjoint...).DrawStyle(common.GraphDrawStyleBars).FillOpacity(70).LineWidth(0).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
}

// number is one value to be read from across the room.
func number(title string, a about, unit string, q query) *stat.PanelBuilder {
	return stat.NewPanelBuilder().Title(title).Description(a.description([]query{q})).NoValue(a.noValue()).
		Datasource(datasource()).Unit(unit).Span(3).Height(4).
		ColorMode(common.BigValueColorModeValue).GraphMode(common.BigValueGraphModeArea).
		JustifyMode(common.BigValueJustifyModeAuto).TextMode(common.BigValueTextModeAuto).
		Orientation(common.VizOrientationAuto).WideLayout(true).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}).Fields("").Values(false)).
		ColorScheme(colorBy(dashboard.FieldColorModeIdThresholds)).Thresholds(steps(blue)).
		WithTarget(over(q))
}

// rows is a table of instant values; queries after the first are joined to its
// rows by equal labels. Column names are given by the panel's own columns call.
func rows(title string, a about, unit string, queries ...query) *table.PanelBuilder {
	b := table.NewPanelBuilder().Title(title).Description(a.description(queries)).NoValue(a.noValue()).
		Datasource(datasource()).Unit(unit).Span(24).Height(9).
		ShowHeader(true).CellHeight(common.TableCellHeightSm).Filterable(true).Align(common.FieldTextAlignmentAuto).
		CellOptions(autoCell()).
		Footer(common.NewTableFooterOptionsBuilder().Show(false).Reducer([]string{}).CountRows(false)).
		Thresholds(steps(grey)).ColorScheme(colorBy(dashboard.FieldColorModeIdThresholds))
	for _, q := range queries {
		b = b.WithTarget(now(q).Format(prometheus.PromQueryFormatTable))
	}
	if len(queries) > 1 {
		b = b.WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}})
	}
	return b
}

func autoCell() common.TableCellOptions {
	return common.TableCellOptions{TableAutoCellOptions: &common.TableAutoCellOptions{Type: "auto"}}
}

// column of a table: the field that a query brings, its heading and the look of
// its cells.
type column struct {
	field, heading string
	unit           string // empty for text
	thresholds     *dashboard.ThresholdsConfigBuilder
	mappings       []dashboard.ValueMapping
	width          int
	links          []any
}

// columns puts the named fields of a table in their order and hides all others.
func columns(b *table.PanelBuilder, list ...column) *table.PanelBuilder {
	include := map[string]any{}
	order := map[string]any{}
	names := map[string]any{}
	for i, c := range list {
		include[c.field], order[c.field], names[c.field] = true, i, c.heading
	}
	b = b.WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
		"includeByName": include, "excludeByName": map[string]any{}, "indexByName": order, "renameByName": names,
	}})
	for _, c := range list {
		b = b.OverrideByName(c.heading, c.look())
	}
	return b
}

func (c column) look() []dashboard.DynamicConfigValue {
	// An empty cell is a dash: the panel's own text for "no value" would fill every one.
	look := []dashboard.DynamicConfigValue{property("noValue", "–")}
	if c.unit != "" {
		look = append(look, property("unit", c.unit))
	}
	if c.width > 0 {
		look = append(look, property("custom.width", c.width))
	}
	if c.thresholds != nil {
		look = append(look, property("thresholds", must(c.thresholds.Build())))
	}
	if c.mappings != nil {
		look = append(look, property("custom.align", "left")) // words, although the field is a number
	}
	if c.thresholds != nil || c.mappings != nil {
		// An empty cell would have the colour of the lowest threshold: nothing is neither good nor bad.
		empty := dashboard.ValueMapping{SpecialValueMap: &dashboard.SpecialValueMap{Type: dashboard.MappingTypeSpecialValue, Options: dashboard.DashboardSpecialValueMapOptions{
			Match: dashboard.SpecialValueMatchNullAndNan, Result: dashboard.ValueMappingResult{Text: p("–"), Color: p("text")},
		}}}
		look = append(look, property("mappings", append(slices.Clip(c.mappings), empty)), property("custom.cellOptions", map[string]any{"type": "color-text"}))
	}
	if c.links != nil {
		look = append(look, property("links", c.links))
	}
	return look
}

// states draws one band for each series; the values have names.
func states(title string, a about, mappings []dashboard.ValueMapping, q query) *statetimeline.PanelBuilder {
	return statetimeline.NewPanelBuilder().Title(title).Description(a.description([]query{q})).NoValue(a.noValue()).
		Datasource(datasource()).Unit("short").Span(24).Height(7).
		MergeValues(true).ShowValue(common.VisibilityModeAuto).AlignValue(common.TimelineValueAlignmentLeft).
		RowHeight(0.8).FillOpacity(70).LineWidth(0).NeverSpanNulls().
		Mappings(mappings).Thresholds(steps(blue)).ColorScheme(colorBy(dashboard.FieldColorModeIdThresholds)).
		Legend(legend()).Tooltip(tooltip()).WithTarget(over(q))
}

// gauges draws one bar for each series.
func gauges(title string, a about, unit string, q query) *bargauge.PanelBuilder {
	return bargauge.NewPanelBuilder().Title(title).Description(a.description([]query{q})).NoValue(a.noValue()).
		Datasource(datasource()).Unit(unit).Span(12).Height(8).
		Orientation(common.VizOrientationHorizontal).DisplayMode(common.BarGaugeDisplayModeBasic).
		ValueMode(common.BarGaugeValueModeText).NamePlacement(common.BarGaugeNamePlacementLeft).Sizing(common.BarGaugeSizingAuto).
		ShowUnfilled(true).MinVizHeight(12).MinVizWidth(8).MaxVizHeight(40).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}).Fields("").Values(false)).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(false).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).Calcs([]string{})).
		Thresholds(steps(blue)).ColorScheme(colorBy(dashboard.FieldColorModeIdThresholds)).WithTarget(over(q))
}

// heat draws the distribution of a histogram over time.
func heat(title string, a about, unit string, v vars, name string) *heatmap.PanelBuilder {
	native := fmt.Sprintf("sum(%s)", increase(v.of(name)))
	classic := fmt.Sprintf("sum by (le) (%s)", increase(v.named(name, name+"_bucket", nil)))
	q := query{expr: native + "\nor\n" + classic, legend: "{{le}}", exemplars: true}
	return heatmap.NewPanelBuilder().Title(title).Description(a.description([]query{q})).NoValue(a.noValue()).
		Datasource(datasource()).Unit(unit).Thresholds(steps(blue)).Span(12).Height(9).Calculate(false).CellGap(1).
		YAxis(heatmap.NewYAxisConfigBuilder().Unit(unit).AxisPlacement(common.AxisPlacementLeft)).
		Color(heatmap.NewHeatmapColorOptionsBuilder().Mode(heatmap.HeatmapColorModeScheme).Scheme("Oranges").
			Scale(heatmap.HeatmapColorScaleExponential).Exponent(0.5).Steps(64).Fill("dark-orange").Reverse(false)).
		Tooltip(heatmap.NewHeatmapTooltipBuilder().Mode(common.TooltipDisplayModeSingle).YHistogram(true).ShowColorScale(true)).
		ExemplarsColor("rgba(255,0,255,0.7)").ShowLegend().
		WithTarget(over(q).Format(prometheus.PromQueryFormatHeatmap))
}

// value names one value of a state.
type value struct {
	of          float64
	text, color string
}

// valueNames maps values to texts and colours.
func valueNames(list ...value) []dashboard.ValueMapping {
	options := map[string]dashboard.ValueMappingResult{}
	for i, v := range list {
		options[fmt.Sprint(v.of)] = dashboard.ValueMappingResult{Text: p(v.text), Color: p(v.color), Index: p(int32(i))}
	}
	return []dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: options}}}
}

// link is a data link of a panel; it opens beside the dashboard.
func link(title, url string) cog.Builder[dashboard.DashboardLink] {
	return dashboard.NewDashboardLinkBuilder(title).Url(url).TargetBlank(false)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// statBuilder is what number returns; boards collect them in lists.
type statBuilder = stat.PanelBuilder

// highestFirst sorts a table by its columns, the first before the others. Grafana
// takes an empty cell for the smallest value: only downwards it comes last, so a
// column by which the worst is to be found grows with badness.
func highestFirst(headings ...string) []cog.Builder[common.TableSortByFieldState] {
	var out []cog.Builder[common.TableSortByFieldState]
	for _, heading := range headings {
		out = append(out, common.NewTableSortByFieldStateBuilder().DisplayName(heading).Desc(true))
	}
	return out
}
