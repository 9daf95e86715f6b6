{{/* Labels of everything; .component names the part, .more are labels of this object alone. Call with (dict "root" $ "component" "operator"). */}}
{{- define "svc3.labels" -}}
app.kubernetes.io/name: svc3
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: svc3
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | replace "+" "_" | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with mergeOverwrite (dict) (.root.Values.commonLabels | default dict) (.more | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels of a part's pods. Call with (dict "root" $ "component" "operator" "values" .Values.operator). */}}
{{- define "svc3.podLabels" -}}
{{- include "svc3.labels" (dict "root" .root "component" .component "more" .values.podLabels) }}
{{- end }}

{{- define "svc3.selector" -}}
app.kubernetes.io/name: svc3
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/*
An image: what the values say, else what the release has written into Chart.yaml, else the name and the chart's appVersion. Not among the default
values, which `helm upgrade --reuse-values` keeps from the chart before. Call with (dict "root" . "values" .Values.image "key" "image" "name" "svc3").
*/}}
{{- define "svc3.imageOf" -}}
{{- $annotations := .root.Chart.Annotations | default dict }}
{{- $repository := .values.repository | default (index $annotations (printf "svc3.dev/%s-repository" .key)) | default .name }}
{{- $tag := .values.tag | default (index $annotations (printf "svc3.dev/%s-tag" .key)) | default (.root.Chart.AppVersion | replace "+" "_") }}
{{- printf "%s%s%s" $repository (ternary "" ":" (hasPrefix "@" $tag)) $tag }}
{{- end }}

{{- define "svc3.image" -}}
{{ include "svc3.imageOf" (dict "root" . "values" .Values.image "key" "image" "name" "svc3") }}
{{- end }}

{{- define "svc3.runnerImage" -}}
{{ include "svc3.imageOf" (dict "root" . "values" .Values.runner.image "key" "runner-image" "name" "svc3-runner") }}
{{- end }}

{{/* What Pod Security "restricted" asks of a pod. */}}
{{- define "svc3.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "svc3.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "svc3.identityEnv" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: SVC3_HEALTH_PORT
  value: "8081"
- name: SVC3_LOG_LEVEL
  value: {{ .Values.logLevel | quote }}
{{- end }}

{{/* What a collector of traces needs to be reached: its headers, and a file with the certificates that its own is signed by. */}}
{{- define "svc3.tracingEnv" -}}
{{- if .Values.tracing.endpoint }}
{{- with .Values.tracing.headersSecret }}
{{- if .name }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom: {secretKeyRef: {name: {{ .name | quote }}, key: {{ .key | quote }}}}
{{- end }}
{{- end }}
{{- if (.Values.tracing.caConfigMap).name }}
- name: OTEL_EXPORTER_OTLP_CERTIFICATE
  value: /etc/svc3/tracing/ca.crt
{{- end }}
{{- end }}
{{- end }}

{{- define "svc3.tracingMounts" -}}
{{- if and .Values.tracing.endpoint (.Values.tracing.caConfigMap).name }}
volumeMounts:
  - {name: tracing, mountPath: /etc/svc3/tracing, readOnly: true}
{{- end }}
{{- end }}

{{- define "svc3.tracingVolumes" -}}
{{- if and .Values.tracing.endpoint (.Values.tracing.caConfigMap).name }}
volumes:
  - name: tracing
    configMap:
      name: {{ (.Values.tracing.caConfigMap).name | quote }}
      items: [{key: {{ .Values.tracing.caConfigMap.key | quote }}, path: ca.crt}]
{{- end }}
{{- end }}

{{/* A process takes long to start on a loaded node, and killing it makes it begin again with more load: it has two minutes or more. */}}
{{- define "svc3.healthProbes" -}}
startupProbe:
  httpGet: {path: /livez, port: health}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /livez, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/* Scheduling fields from a part's values; the images are Linux ones. Call as svc3.podLabels, with "replicated" true for a Deployment. */}}
{{- define "svc3.scheduling" -}}
{{- if .values.affinity }}
affinity: {{- toYaml .values.affinity | nindent 2 }}
{{- else if .replicated }}
affinity: {{- include "svc3.antiAffinity" . | nindent 2 }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
  - {{- toYaml . | nindent 4 }}
    {{- if not .labelSelector }}
    labelSelector:
      matchLabels: {{- include "svc3.selector" $ | nindent 8 }}
    {{- end }}
{{- end }}
{{- end }}
nodeSelector: {{- toYaml (mergeOverwrite (dict "kubernetes.io/os" "linux") (.values.nodeSelector | default dict)) | nindent 2 }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{/* Replicas stay apart where they can. */}}
{{- define "svc3.antiAffinity" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {{- include "svc3.selector" . | nindent 12 }}
{{- end }}

{{/* A range of ports as the values write it, refused where it ends before it begins. Call with (list "portRanges.ssh" .Values.portRanges.ssh). */}}
{{- define "svc3.portRange" -}}
{{- $ends := splitList "-" (index . 1) }}
{{- if gt (atoi (first $ends)) (atoi (last $ends)) }}
{{- fail (printf "%s: the range %s ends before it begins" (index . 0) (index . 1)) }}
{{- end }}
{{- index . 1 | quote }}
{{- end }}

{{/*
The name in the certificate of the api by which a Gateway knows it: of its address, else of its route; no number, no wildcard. For names inside
the cluster the api shows another certificate, which it has signed itself.
*/}}
{{- define "svc3.apiHostname" -}}
{{- $names := list }}
{{- range prepend (.Values.api.gateway.hostnames | default list) (urlParse (.Values.api.baseUrl | default "")).hostname }}
{{- if regexMatch "^[a-z0-9.-]*[a-z][a-z0-9.-]*$" (lower .) }}{{ $names = append $names (lower .) }}{{ end }}
{{- end }}
{{- if not $names }}
{{- fail "api.gateway: HTTPRoute needs the name in the certificate of the api: set api.baseUrl to an address with it, or a hostname without *." }}
{{- end }}
{{- first $names }}
{{- end }}

{{/* Settings that operator and api share; a pod annotation holds their checksum, so that a change restarts the pods. */}}
{{- define "svc3.settings" -}}
SVC3_DEFAULT_NAMESPACE: {{ .Values.defaultNamespace | quote }}
SVC3_GPU_PASSTHROUGH_ENABLED: {{ .Values.gpuPassthrough.enabled | quote }}
SVC3_GPU_TOWER_CARDS: {{ join "," .Values.gpuPassthrough.towerCards | quote }}
SVC3_NODE_AGENT_ENABLED: {{ .Values.nodeAgent.enabled | default false | quote }}
SVC3_NODE_AGENT_NODE_SELECTOR: {{ .Values.nodeAgent.nodeSelector | default dict | toJson | quote }}
SVC3_HOST_PORTS_ALLOWED: {{ include "svc3.portRange" (list "hostPorts.allowed" .Values.hostPorts.allowed) }}
SVC3_PORT_RANGE_SSH: {{ include "svc3.portRange" (list "portRanges.ssh" .Values.portRanges.ssh) }}
SVC3_PORT_RANGE_SCREENSHARE: {{ include "svc3.portRange" (list "portRanges.screenshare" .Values.portRanges.screenshare) }}
SVC3_PORT_RANGE_VNC: {{ include "svc3.portRange" (list "portRanges.vnc" .Values.portRanges.vnc) }}
SVC3_NODE_PORT_SSH: {{ .Values.nodePorts.ssh | default false | quote }}
SVC3_NODE_PORT_SCREENSHARE: {{ .Values.nodePorts.screenshare | default false | quote }}
SVC3_VNC_HOST_PORT: {{ .Values.vnc.hostPort | quote }}
SVC3_STORE_URL: {{ .Values.store.url | quote }}
SVC3_STORE_PREFIX: {{ .Values.store.prefix | quote }}
SVC3_UPLOAD_EXPIRY_HOURS: {{ .Values.store.uploadExpiryHours | quote }}
SVC3_WORKER_SCRATCH_SIZE: {{ .Values.store.maxFileSize | quote }}
SVC3_REMOTE_REGISTRIES: {{ join "," .Values.remoteRegistries | quote }}
{{- if and .Values.insecureRegistries.enabled (not .Values.nodeAgent.enabled) }}
{{- fail "insecureRegistries.enabled needs nodeAgent.enabled: only the node agent lets nodes trust such registries, and takes the trust back" }}
{{- end }}
{{- if and .Values.insecureRegistries.enabled (not .Values.nodeAgent.certsDirectory) }}
{{- fail "insecureRegistries.enabled needs nodeAgent.certsDirectory: there the node agent writes what lets nodes trust such registries" }}
{{- end }}
SVC3_INSECURE_REGISTRIES_ENABLED: {{ .Values.insecureRegistries.enabled | quote }}
SVC3_INSECURE_REGISTRIES_ALLOWED: {{ join "," .Values.insecureRegistries.allowed | quote }}
SVC3_PLACEMENT_WHEN_FULL: {{ .Values.placement.whenFull | quote }}
SVC3_VM_METRICS: {{ .Values.vmMetrics.enabled | quote }}
SVC3_CPU_OVERCOMMIT: {{ .Values.cpuOvercommit | quote }}
SVC3_ACCELERATOR: {{ .Values.accelerator | quote }}
SVC3_READINESS_TIMEOUT_SECONDS: {{ .Values.readiness.timeoutSeconds | quote }}
SVC3_DELETION_SAVE_WAIT_MINUTES: {{ .Values.deletion.saveWaitMinutes | quote }}
SVC3_DISK_STORAGE_CLASS: {{ .Values.disk.storageClassName | quote }}
SVC3_DISK_EPHEMERAL_LIMIT: {{ .Values.disk.ephemeralLimit | quote }}
SVC3_RUNNER_IMAGE: {{ include "svc3.runnerImage" . | quote }}
SVC3_RUNNER_IMAGE_PULL_POLICY: {{ .Values.runner.image.pullPolicy | quote }}
SVC3_RUNNER_PULL_SECRET: {{ .Values.runner.pullSecret | quote }}
SVC3_RUNNER_GRACE_PERIOD_SECONDS: {{ .Values.runner.gracePeriodSeconds | quote }}
SVC3_VM_PRIORITY_CLASS: {{ .Values.runner.priorityClassName | quote }}
SVC3_WORKER_IMAGE: {{ include "svc3.image" . | quote }}
SVC3_WORKER_IMAGE_PULL_POLICY: {{ .Values.image.pullPolicy | quote }}
SVC3_API_BASE_URL: {{ .Values.api.baseUrl | quote }}
SVC3_CLUSTER_ENDPOINT: {{ .Values.api.clusterEndpoint | quote }}
{{- if ne (empty .Values.api.oidc.issuerUrl) (empty .Values.api.oidc.clientId) }}
{{- fail "api.oidc: issuerUrl and clientId are set together or not at all" }}
{{- end }}
SVC3_OIDC_ISSUER_URL: {{ .Values.api.oidc.issuerUrl | quote }}
SVC3_OIDC_CLIENT_ID: {{ .Values.api.oidc.clientId | quote }}
SVC3_AGGREGATED_API_ENABLED: {{ .Values.aggregatedApi.enabled | default false | quote }}
{{- if .Values.tracing.endpoint }}
OTEL_EXPORTER_OTLP_ENDPOINT: {{ .Values.tracing.endpoint | quote }}
OTEL_TRACES_SAMPLER_ARG: {{ .Values.tracing.sampleRatio | quote }}
{{- end }}
{{- end }}

{{/* The rule of a NetworkPolicy that opens health and metrics. */}}
{{- define "svc3.metricsIngress" -}}
ports:
  - {port: 8081, protocol: TCP}
{{- with .Values.networkPolicies.metricsFrom }}
from: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Milliseconds of an interval, such as 30s. */}}
{{- define "svc3.intervalMs" -}}
{{- $milliseconds := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 }}
{{- mul (regexFind "^[0-9]+" . | int64) (index $milliseconds (regexFind "[a-z]+$" .)) }}
{{- end }}
