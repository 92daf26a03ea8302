package proctest

import "go.uber.org/goleak"

// IgnoreProxies leaves out of goleak's look what toxiproxy leaves behind: where the
// end that it writes to is gone while it holds a piece of data, its goroutine between
// the two (ToxicStub.Run) waits for ever (2.12.0). Nothing of leafd's runs in it.
func IgnoreProxies() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run")
}
