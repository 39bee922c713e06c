// Package exchange puts one HTTP request and its whole answer between a client
// library and the network, so that what a library does by itself is under
// control: one request and no more, no redirects, the body of the request as it
// must be, an answer read under a cap and kept, and errors in words for a
// person. It knows nothing of models and decides no class of failure.
//
//	client := exchange.NewClient(nil, headers)      // given to the library
//	var x exchange.Exchange
//	_, err := library.Call(exchange.With(ctx, &x))  // at most one request
//	fault := service.Fault(&x, err)                 // why it did not work
//
// The default transport is Go's: HTTPS_PROXY, HTTP_PROXY and NO_PROXY choose a
// proxy, and SSL_CERT_FILE and SSL_CERT_DIR add private certificates where the
// system's own store is not asked (Linux and other Unix systems; on macOS and
// Windows a private certificate belongs into the system's store).
package exchange
