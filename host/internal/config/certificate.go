package config

import (
	"crypto/tls"
	"time"

	"github.com/hashicorp/hcl/v2"
)

var tlsSchema = Block{
	Type: "tls",
	Doc:  "Has the gateway speak HTTPS. The files are read again when they change.",
	Attributes: []Attribute{
		{Name: "certificate", Type: TypePath, Required: true, Example: `"fullchain.pem"`, Doc: "the certificate chain, in PEM"},
		{Name: "key", Type: TypePath, Required: true, Example: `"key.pem"`, Doc: "its private key, in PEM; a warning tells if other users can read it"},
	},
}

// tls reads where a certificate and its key are, and checks that they can be
// used.
func (d *decoder) tls(block *hcl.Block) TLS {
	attrs := d.attrs(block, tlsSchema)
	certificate, key := d.path(attrs, "certificate"), d.path(attrs, "key")
	for _, name := range []string{"certificate", "key"} {
		if attrs[name] == nil && !d.misspelt(block.Body, tlsSchema, name) {
			d.diags.errorf(d.header(block), "Missing argument", "tls: %s is required, the path of a file in PEM.", name)
		}
	}
	if !certificate.Set || !key.Set {
		return TLS{}
	}
	files := TLS{Certificate: certificate.V, Key: key.V}
	for _, file := range []struct {
		val[string]
		name string
	}{{certificate, "certificate"}, {key, "key"}} {
		if _, err := readFile(file.V); err != nil {
			d.diags.errorf(file.Range, "Certificate cannot be read", "%s: %s: %s.", file.name, quote(file.V), reason(err))
			return files
		}
		if file.name == "key" {
			d.warnOfReaders(file.val, file.name)
		}
	}
	pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
	if err != nil {
		d.diags.errorf(certificate.Range, "Not a certificate with its key", "certificate, key: %s.", err)
		return files
	}
	if expired := pair.Leaf.NotAfter; expired.Before(time.Now()) {
		d.diags.warnf(certificate.Range, "Certificate has expired", "certificate: it was good until %s; clients will refuse it.", expired.Format(time.RFC1123))
	}
	return files
}
