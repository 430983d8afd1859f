{{/* The name of everything: the release's, with the chart's unless it is in it. */}}
{{- define "inferbeat.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{/* What selects the pods of this release. */}}
{{- define "inferbeat.selector" -}}
app.kubernetes.io/name: inferbeat
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "inferbeat.labels" -}}
{{ include "inferbeat.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "inferbeat.account" -}}
{{ .Values.serviceAccount.name | default (include "inferbeat.name" .) }}
{{- end }}
