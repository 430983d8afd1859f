package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// UIDs of the boards; links between them and from alerts rest on these.
const (
	uidFleet      = "inferbeat-fleet"
	uidSLO        = "inferbeat-slo"
	uidTarget     = "inferbeat-target"
	uidCapacity   = "inferbeat-capacity"
	uidRegression = "inferbeat-regression"
	uidCompare    = "inferbeat-compare"
	uidHealth     = "inferbeat-health"
)

const tag = "inferbeat"

// defaultPage is where the daemon's own pages are unless the files are written
// for another address.
const defaultPage = "http://127.0.0.1:9799"

// frame is what all boards have in common.
func frame(uid, title, question, from string) *builderV1 {
	return newBuilderV1("Inferbeat / "+title).Uid(uid).Description(question).
		Tags([]string{tag, "llm", "generated"}).Timezone("browser").Time(from, "now").Refresh("1m").Readonly().
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Inferbeat").Type(dashboard.DashboardLinkTypeDashboards).Icon("external link").
			Tooltip("The other boards, with the same selection and time").
			Tags([]string{tag}).AsDropdown(true).IncludeVars(true).KeepTime(true)).
		Link(dashboard.NewDashboardLinkBuilder("Status page").Type(dashboard.DashboardLinkTypeLink).Icon("external link").
			Tooltip("The daemon's own page").Url("${" + varPage + "}/").TargetBlank(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder(varDatasource).Label("Data source").Type("prometheus")).
		WithVariable(dashboard.NewConstantVariableBuilder(varPage).Label("Address of inferbeat's page").
			Value(dashboard.StringOrMap{String: p(defaultPage)})).
		WithVariable(choose(varJob, "Job", fmt.Sprintf("label_values(%s, job)", catalog.BuildInfo)))
}

// withPairs adds the variables that select pairs, each narrowed by those before
// it, and the marks of what happened to them.
func withPairs(b *builderV1) *builderV1 { return withPairsBut("", b) }

// withPairsBut holds the variable single to one value: a board about one thing is
// unreadable for all of them.
func withPairsBut(single string, b *builderV1) *builderV1 {
	labels := map[string]string{
		catalog.LabelTargetEnv: "Environment", catalog.LabelPool: "Pool", catalog.LabelModel: "Model",
		catalog.LabelTarget: "Target", catalog.LabelProbe: "Probe",
	}
	for i, name := range pairVars[1:] {
		series := pairVars[:i+1].of(catalog.RunActive)
		variable := choose(name, labels[name], fmt.Sprintf("label_values(%s, %s)", series, name))
		if name == single {
			variable = chooseOne(name, labels[name], fmt.Sprintf("label_values(%s, %s)", series, name))
		}
		b = b.WithVariable(variable)
	}
	return b.
		Annotation(mark("Run starts", blue, false, pairVars.of(catalog.RunLastStart)+" * 1000", "{{probe}} on {{target}}", true)).
		Annotation(mark("Configuration reloads", "purple", true, vars{varJob}.of(catalog.ConfigReloadTimestamp)+" * 1000", "Configuration loaded", true)).
		Annotation(mark("Engine versions", orange, true, versionChange(), "{{target}} now runs {{engine}} {{engine_version}}", false)).
		Annotation(mark("Alerts", red, true, alerts(`target=~"$target|"`, `pool=~"$pool|"`), "{{alertname}} {{target}}", false))
}

// withWindow adds the variable over which counters are looked at.
func withWindow(b *builderV1) *builderV1 {
	values := []string{"5m", "15m", "1h", "6h", "1d"}
	var options []dashboard.VariableOption
	for _, v := range values {
		options = append(options, option(v, v, v == "15m"))
	}
	return b.WithVariable(dashboard.NewCustomVariableBuilder(varWindow).Label("Window").
		Description("Counters are looked at over this long: at one request a minute a short window holds no event.").
		Values(dashboard.StringOrMap{String: p("5m,15m,1h,6h,1d")}).Options(options).Current(option("15m", "15m", true)).
		Multi(false).IncludeAll(false))
}

func option(text, value string, selected bool) dashboard.VariableOption {
	return dashboard.VariableOption{
		Selected: p(selected),
		Text:     dashboard.StringOrArrayOfString{String: p(text)}, Value: dashboard.StringOrArrayOfString{String: p(value)},
	}
}

// choose is a variable whose values are those of a label. "All" matches the
// empty value too: a target may not have told its model yet.
func choose(name, label, values string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(datasource()).
		Query(dashboard.StringOrMap{Map: map[string]any{"query": values, "refId": name, "qryType": 1}}).Definition(values).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{
			Selected: p(true),
			Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value:    dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}

// chooseOne is a variable that holds one value, the first until somebody chooses.
func chooseOne(name, label, values string) *dashboard.QueryVariableBuilder {
	return choose(name, label, values).Multi(false).IncludeAll(false).Current(dashboard.VariableOption{})
}

// mark is an annotation: at the time that the value is (in milliseconds), or
// where the expression has a value.
func mark(name, color string, enabled bool, expr, title string, valueIsTime bool) cog.Builder[dashboard.AnnotationQuery] {
	return dashboard.NewAnnotationQueryBuilder().Name(name).IconColor(color).Enable(enabled).Datasource(datasource()).
		Target(prometheus.NewDataqueryBuilder().Datasource(datasource()).Expr(expr).RefId(name).Range()).
		Expr(expr).TitleFormat(title).TextFormat("").TagKeys("target,probe,severity").Step("60s").UseValueForTime(valueIsTime)
}

// versionChange has a value for five minutes after a known target told another
// version of its engine.
func versionChange() string {
	const version = "target, engine, engine_version"
	info := pairVars.of(catalog.TargetInfo, `engine_version!=""`)
	return fmt.Sprintf("%s\nunless %s\nand on (target) %s",
		maxBy(version, info), maxBy(version, info+" offset 5m"), maxBy("target", info+" offset 5m"))
}

// Links from a series to what is behind it. The run's page takes the instant in
// milliseconds.
func runLink() cog.Builder[dashboard.DashboardLink] {
	return link("The run at this moment", "${"+varPage+"}/ui/targets/${__field.labels.target}/probes/${__field.labels.probe}?at=${__value.time}")
}

func targetLink() cog.Builder[dashboard.DashboardLink] {
	return link("Drill down into the target", boardURL(uidTarget)+"&var-target=${__field.labels.target}")
}

func links(list ...cog.Builder[dashboard.DashboardLink]) []cog.Builder[dashboard.DashboardLink] {
	return list
}

// cellLink is a link of a table's cell to another board, with the row's value
// of the column as the variable.
func cellLink(title, uid, variable, column string) []any {
	return []any{map[string]any{
		"title": title, "targetBlank": false,
		"url": fmt.Sprintf("%s&var-%s=${__data.fields[%q]}", boardURL(uid), variable, column),
	}}
}

// boardURL is another board at the same time and data source. A path without a
// leading slash works behind a Grafana that is served below a prefix.
func boardURL(uid string) string {
	return "d/" + uid + "?${__url_time_range}&${" + varDatasource + ":queryparam}"
}
