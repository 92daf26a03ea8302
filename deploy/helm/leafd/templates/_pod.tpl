{{- define "leafd.labels" -}}
app.kubernetes.io/name: leafd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "leafd.secret" -}}
{{ .Values.existingSecret | default .Release.Name }}
{{- end }}

{{- define "leafd.stateful" -}}
{{- if not (has .Values.kind (list "StatefulSet" "Deployment")) }}
{{- fail (printf "kind is %q: want StatefulSet or Deployment" .Values.kind) }}
{{- end }}
{{- if eq .Values.kind "StatefulSet" }}yes{{ end }}
{{- end }}

{{- define "leafd.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default (print "v" .Chart.AppVersion)) }}
{{- end }}

{{- define "leafd.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532 # may write to the volume and read the secrets
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "leafd.settingsVolume" -}}
- name: settings
  projected:
    defaultMode: 0440
    sources:
      - configMap: {name: {{ .Release.Name }}}
      {{- if or .Values.existingSecret .Values.zookeeper.auth }}
      - secret: {name: {{ include "leafd.secret" . }}, items: [{key: zk-auth, path: zk-auth}]}
      {{- end }}
{{- end }}

{{- define "leafd.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "leafd.pod" -}}
metadata:
  labels:
    {{- include "leafd.labels" . | nindent 4 }}
  annotations:
    # Pods read their settings at a start: a change rolls them out.
    leafd/settings: {{ include (print $.Template.BasePath "/settings.yaml") . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  # They would set LEAFD_PORT and the like, which are no settings.
  enableServiceLinks: false
  # Above drain-delay and 15 s.
  terminationGracePeriodSeconds: 45
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "leafd.labels" . | nindent 10 }}
  {{- include "leafd.podSecurity" . | nindent 2 }}
  containers:
    - name: leafd
      image: {{ include "leafd.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
        - --config=/etc/leafd/leafd.yaml
        - --node=$(POD_NAME)
        - --advertise={{ ternary "[$(POD_IP)]" "$(POD_IP)" .Values.ipv6 }}:8080
        {{- if not (include "leafd.stateful" .) }}
        - --release-on-stop
        - --lease={{ .Values.zookeeper.lease }}
        {{- end }}
      env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        {{- if or .Values.existingSecret .Values.mysql.dsn }}
        - name: LEAFD_MYSQL
          valueFrom: {secretKeyRef: {name: {{ include "leafd.secret" . }}, key: mysql}}
        {{- end }}
      ports:
        - {name: http, containerPort: 8080}
        - {name: admin, containerPort: 8081}
      # /healthz answers from the first moment on, while a start waits too: that one ends by itself
      # after startup-timeout. Never /readyz here: no restart corrects a clock.
      startupProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 1
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 2
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      {{- include "leafd.confined" . | nindent 6 }}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: settings, mountPath: /etc/leafd, readOnly: true}
  volumes:
    {{- include "leafd.settingsVolume" . | nindent 4 }}
    {{- if not (include "leafd.stateful" .) }}
    # Outlives a crash of the container, and ends with the pod.
    - name: data
      emptyDir: {sizeLimit: {{ .Values.storage.size }}}
    {{- end }}
{{- end }}
