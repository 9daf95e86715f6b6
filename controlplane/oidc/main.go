// An OpenID provider for tests: the library's own, with its device login, public clients and users of a file.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// client has no secret and may do what command lines do.
type client struct {
	*storage.Client
	lifetime time.Duration
}

func (c client) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeDeviceCode, oidc.GrantTypeRefreshToken}
}

func (c client) IDTokenLifetime() time.Duration { return c.lifetime }

type store struct {
	*storage.Storage
	client client
}

func (s store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	if id != s.client.GetID() {
		return nil, oidc.ErrInvalidClient().WithDescription("client not found")
	}
	return s.client, nil
}

// The storage forgets whose client a device login was; there is one only.
func (s store) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	request, err := s.Storage.TokenRequestByRefreshToken(ctx, token)
	if known, ok := request.(*storage.RefreshTokenRequest); ok {
		known.ApplicationID = s.client.GetID()
	}
	return request, err
}

func main() {
	issuer := flag.String("issuer", "", "its address, https")
	listen := flag.String("listen", "127.0.0.1:0", "where it listens")
	cert := flag.String("cert", "", "file of the certificate")
	key := flag.String("key", "", "file of the key")
	users := flag.String("users", "", "JSON file of the users")
	id := flag.String("client", "svc3", "name of the public client")
	lifetime := flag.Duration("id-token-lifetime", time.Hour, "how long an ID token is good")
	flag.Parse()
	known, err := storage.StoreFromFile(*users)
	if err != nil {
		log.Fatal(err)
	}
	public := storage.NativeClient(*id)
	storage.RegisterClients(public)
	all := store{storage.NewStorage(known), client{public, *lifetime}}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	router := exampleop.SetupServer(*issuer, all, logger, false)
	log.Fatal(http.ListenAndServeTLS(*listen, *cert, *key, router))
}
