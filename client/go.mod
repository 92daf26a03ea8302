module github.com/leafd/leafd/client

go 1.25.0

// Of the tests alone: what imports the package gets the standard library.
require (
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
