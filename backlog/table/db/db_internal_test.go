package db

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// An error names what ended the call once, and the time limit that applied.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		db := &DB{}
		if err := db.Wrap(t.Context(), withTimeout(t.Context(), 2*time.Second, hangs)); err == nil || err.Error() != "the database is away: no answer within 2s" {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := db.Wrap(ctx, withTimeout(ctx, 2*time.Second, hangs)); err == nil || err.Error() != "context canceled" {
			t.Errorf("got %v", err)
		}
	})
}

// A person has to resolve an untrusted certificate, so the program must not wait for it. With
// sslmode=verify-ca the driver verifies the certificate itself, and its error is not one of crypto/tls.
func TestUntrustedCertificate(t *testing.T) {
	text := &Text{Name: "PostgreSQL", CertificateHint: "name its authority"}
	err := text.ConnectError(t.Context(), "h:1", time.Second, fmt.Errorf("tls error: %w", x509.UnknownAuthorityError{}))
	if p := (*Problem)(nil); !errors.As(err, &p) {
		t.Errorf("got %v, want a *Problem", err)
	}
}
