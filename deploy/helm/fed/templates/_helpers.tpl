{{/* Names, labels and words that several templates share. */}}
{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "fed.name" -}}
{{- ternary .Release.Name (printf "%s-fed" .Release.Name) (contains .Chart.Name .Release.Name) | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "fed.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fed.labels" -}}
{{ include "fed.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: {{ ternary "helper" "coordinator" (ne .Values.helper.upstream "") }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "fed.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* What the first container of the pod puts into the certificate: the values' names, the cluster's, and this pod's own. */}}
{{- define "fed.hosts" -}}
{{- $name := include "fed.name" . }}
{{- concat .Values.hosts (list $name (printf "%s.%s.svc" $name .Release.Namespace) "localhost" "127.0.0.1") | uniq | toJson }}
{{- end }}

{{- define "fed.container" -}}
image: {{ include "fed.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources:
  {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - name: state
    mountPath: /var/lib/fed
  {{- if .Values.helper.upstream }}
  - name: helper
    mountPath: /helper
    readOnly: true
  {{- else if .Values.tasks }}
  - name: tasks
    mountPath: /tasks
    readOnly: true
  {{- end }}
{{- end }}

{{/* What the pods of a coordinator and of a helper have alike, in the pod's spec. */}}
{{- define "fed.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 30
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- range $key, $id := .Values.podSecurityContext }}
  {{- if $id }}
  {{ $key }}: {{ int64 $id }}
  {{- end }}
  {{- end }}
  # Once the volume belongs to the group, Kubernetes changes no modes. So the files of keys keep the modes that the program set.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "fed.podMetadata" -}}
labels:
  {{- include "fed.labels" . | nindent 2 }}
  {{- with .Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "fed.volume" -}}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata:
    name: state
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .Values.persistence.storageClass }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests:
        storage: {{ .Values.persistence.size }}
{{- end }}

{{/* A probe: seconds between two, and how many may fail. The program gives up after 18 seconds at most;
     a probe that takes 15 has failed. */}}
{{- define "fed.probe" -}}
exec:
  command: [/usr/bin/fedserver, health, --dir, /var/lib/fed]
timeoutSeconds: 15
periodSeconds: {{ .period }}
failureThreshold: {{ .failures }}
{{- end }}
