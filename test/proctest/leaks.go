package proctest

import "go.uber.org/goleak"

// IgnoreProxies leaves out of goleak's look what toxiproxy (2.12.0) leaves behind: where the
// end that it writes to is gone while it holds a piece of data, its goroutine between the two
// (ToxicStub.Run) waits for ever, and so does the one that reads, once it hands the next piece
// over (ChanWriter.Write). Nothing of leafd's runs in either.
func IgnoreProxies() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/stream.(*ChanWriter).Write"),
	}
}
