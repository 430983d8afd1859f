//lint:file-ignore SA1019 the SDK prefers v2, which file provisioning and Grafana before version 12 do not take

package boards

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// The first version of the dashboard schema.
type (
	builderV1 = dashboard.DashboardBuilder
	boardV1   = dashboard.Dashboard
)

func newBuilderV1(title string) *builderV1 { return dashboard.NewDashboardBuilder(title) }
