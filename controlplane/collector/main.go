// The OpenTelemetry Collector for tests: its receiver of OTLP over HTTP with its login; what it takes is written as lines of JSON.
package main

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/bearertokenauthextension"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// config of the exporter "lines".
type config struct {
	// Refuse is the code of gRPC that it refuses all spans with; 0 takes them. The receiver makes the status of HTTP of it.
	Refuse codes.Code `mapstructure:"refuse"`
}

// lines writes each request as a line of JSON.
type lines struct {
	component.StartFunc
	component.ShutdownFunc
	refuse codes.Code
}

func (lines) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (l lines) ConsumeTraces(_ context.Context, traces ptrace.Traces) error {
	if l.refuse != codes.OK {
		return status.Error(l.refuse, "refused by the test")
	}
	text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(text, '\n'))
	return err
}

func newLines(_ context.Context, _ exporter.Settings, given component.Config) (exporter.Traces, error) {
	return lines{refuse: given.(*config).Refuse}, nil
}

// newLogger tells faults only; the usual telemetry brings what finds out about clouds, which is half of a build.
func newLogger(context.Context, telemetry.LoggerSettings, component.Config) (*zap.Logger, component.ShutdownFunc, error) {
	settings := zap.NewProductionConfig()
	settings.Level = zap.NewAtomicLevelAt(zap.ErrorLevel)
	logger, err := settings.Build()
	return logger, nil, err
}

func components() (otelcol.Factories, error) {
	receivers, noReceivers := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	extensions, noExtensions := otelcol.MakeFactoryMap[extension.Factory](bearertokenauthextension.NewFactory())
	exporters, noExporters := otelcol.MakeFactoryMap[exporter.Factory](exporter.NewFactory(
		component.MustNewType("lines"),
		func() component.Config { return &config{} },
		exporter.WithTraces(newLines, component.StabilityLevelDevelopment),
	))
	return otelcol.Factories{
		Receivers:  receivers,
		Extensions: extensions,
		Exporters:  exporters,
		Telemetry: telemetry.NewFactory(
			func() component.Config { return &struct{}{} },
			telemetry.WithCreateLogger(newLogger),
		),
	}, errors.Join(noReceivers, noExtensions, noExporters)
}

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otelcol"},
		Factories: components,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
			DefaultScheme:     "file",
		}},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
