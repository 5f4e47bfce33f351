{{- define "tierscope.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "tierscope.labels" -}}
app.kubernetes.io/name: tierscope
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The settings file: the values' own, with what only the release knows. */}}
{{- define "tierscope.settings" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- if .Values.watchNamespaces -}}
{{- $_ := set $settings.exporter.pods "namespaces" .Values.watchNamespaces -}}
{{- $_ := set $settings.collector.kubernetes "namespaces" .Values.watchNamespaces -}}
{{- end -}}
{{- if not (hasKey $settings.collector.kubernetes "exporters") -}}
{{- $_ := set $settings.collector.kubernetes "exporters" (dict "namespace" .Release.Namespace) -}}
{{- end -}}
{{- if and .Values.server.tlsClients (not .Values.server.tlsSecret) -}}
{{- fail "server.tlsClients: a port without TLS sees no certificate; name the Secret with it in server.tlsSecret (docs/encryption.md)" -}}
{{- end -}}
{{- if .Values.server.tlsSecret -}}
{{- $_ := set $settings.api "tls_certificate_file" "/etc/tierscope/tls/tls.crt" -}}
{{- $_ := set $settings.api "tls_key_file" "/etc/tierscope/tls/tls.key" -}}
{{- if .Values.server.tlsClients -}}
{{- $_ := set $settings.api "tls_client_ca_file" "/etc/tierscope/tls/ca.crt" -}}
{{- end -}}
{{- end -}}
{{- include "tierscope.encrypted" (dict "root" . "settings" $settings) -}}
{{- toYaml $settings -}}
{{- end }}

{{- define "tierscope.poolSettings" -}}
{{- $settings := deepCopy .Values.pool.settings -}}
{{- include "tierscope.encrypted" (dict "root" . "settings" $settings) -}}
{{- toYaml $settings -}}
{{- end }}

{{/* What of the settings says how /metrics and the feed are encrypted; prints nothing. */}}
{{- define "tierscope.encrypted" -}}
{{- $tls := .root.Values.tls -}}
{{- if and $tls.metricsClients (not $tls.metricsSecret) -}}
{{- fail "tls.metricsClients: a port without TLS sees no certificate; name the Secret with it in tls.metricsSecret (docs/encryption.md)" -}}
{{- end -}}
{{- range $part := list "exporter" "collector" -}}
{{- $found := get $.settings $part -}}
{{- if $found -}}
{{- if $tls.metricsSecret -}}
{{- $files := dict "certificate_file" "/etc/tierscope/metrics-tls/tls.crt" "key_file" "/etc/tierscope/metrics-tls/tls.key" -}}
{{- if $tls.metricsClients -}}
{{- $_ := set $files "client_ca_file" "/etc/tierscope/metrics-tls/ca.crt" -}}
{{- end -}}
{{- $_ := set $found "tls" $files -}}
{{- end -}}
{{- if $tls.feedKeysSecret -}}
{{- $keys := dict "key_file" (printf "/etc/tierscope/feed-keys/%s.key" $part) -}}
{{- if eq $part "exporter" -}}
{{- $_ := set $keys "clients_file" "/etc/tierscope/feed-keys/readers" -}}
{{- else -}}
{{- $_ := set $keys "server_key_file" "/etc/tierscope/feed-keys/exporter.pub" -}}
{{- end -}}
{{- $_ := set $found "feed_keys" $keys -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Whether an exporter is ready: its page, or its port where the page wants a certificate that no kubelet has. */}}
{{- define "tierscope.metricsReady" -}}
{{- if and .Values.tls.metricsSecret .Values.tls.metricsClients -}}
{tcpSocket: {port: metrics}, periodSeconds: 20, timeoutSeconds: 5}
{{- else if .Values.tls.metricsSecret -}}
{httpGet: {path: /metrics, port: metrics, scheme: HTTPS}, periodSeconds: 20, timeoutSeconds: 5}
{{- else -}}
{httpGet: {path: /metrics, port: metrics}, periodSeconds: 20, timeoutSeconds: 5}
{{- end -}}
{{- end }}

{{- define "tierscope.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "tierscope.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Writable places of a read-only root: compiled kernels, sockets, temporary files. */}}
{{- define "tierscope.env" -}}
- {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
- {name: NUMBA_CACHE_DIR, value: /var/cache/tierscope}
- {name: HOME, value: /tmp}
{{- end }}

{{- define "tierscope.mounts" -}}
- {name: settings, mountPath: /etc/tierscope/settings, readOnly: true}
- {name: hash-key, mountPath: /etc/tierscope/keys, readOnly: true}
- {name: tmp, mountPath: /tmp}
- {name: cache, mountPath: /var/cache/tierscope}
{{- if .Values.tls.metricsSecret }}
- {name: metrics-tls, mountPath: /etc/tierscope/metrics-tls, readOnly: true}
{{- end }}
{{- if .Values.tls.feedKeysSecret }}
- {name: feed-keys, mountPath: /etc/tierscope/feed-keys, readOnly: true}
{{- end }}
{{- end }}

{{- define "tierscope.volumes" -}}
- {name: settings, configMap: {name: {{ .settings }}}}
- {name: hash-key, secret: {secretName: {{ .root.Values.hashKeySecret }}, defaultMode: 0440}}
- {name: tmp, emptyDir: {sizeLimit: 1Gi}}
- {name: cache, emptyDir: {sizeLimit: 256Mi}}
{{- with .root.Values.tls.metricsSecret }}
- {name: metrics-tls, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- if .root.Values.tls.feedKeysSecret }}
- name: feed-keys
  secret:
    secretName: {{ .root.Values.tls.feedKeysSecret }}
    defaultMode: 0440
    items:
      {{- range $name := ternary (list "collector.key" "exporter.pub") (list "exporter.key" "readers") (eq .component "server") }}
      - {key: {{ $name }}, path: {{ $name }}}
      {{- end }}
{{- end }}
{{- end }}

{{/* Somebody who scrapes comes from the monitoring namespace. */}}
{{- define "tierscope.fromMonitoring" -}}
- namespaceSelector:
    matchLabels: {kubernetes.io/metadata.name: {{ .Values.networkPolicy.monitoringNamespace }}}
{{- end }}

{{/* Name service, and the Kubernetes API wherever it is. */}}
{{- define "tierscope.toCluster" -}}
- to: [{namespaceSelector: {}}]
- ports: [{port: 443, protocol: TCP}, {port: 6443, protocol: TCP}]
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- end }}

{{/* Who reaches an exporter: who scrapes it, and the collector that takes its feed. */}}
{{- define "tierscope.exporterPolicy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: tierscope-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "tierscope.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "tierscope.labels" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    - from: {{- include "tierscope.fromMonitoring" .root | nindent 8 }}
      ports: [{port: metrics, protocol: TCP}]
    - from:
        - podSelector:
            matchLabels: {{- include "tierscope.labels" (dict "component" "server") | nindent 14 }}
      ports: [{port: feed, protocol: TCP}, {port: feed-replay, protocol: TCP}]
  egress: {{- include "tierscope.toCluster" .root | nindent 4 }}
{{- end }}
