// Package server is leafd's HTTP side and its Redis protocol: it joins the listeners (conn) with what serves
// IDs (ids) and all other requests (views), each of which imports only those before it.
package server
