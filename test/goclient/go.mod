module github.com/leafd/leafd/test/goclient

go 1.26.0

replace (
	github.com/leafd/leafd => ../../
	github.com/leafd/leafd/client => ../../client
)

require (
	github.com/leafd/leafd v0.0.0-00010101000000-000000000000
	github.com/leafd/leafd/client v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/go-sql-driver/mysql v1.10.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
