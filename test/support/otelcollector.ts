import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { freePorts } from '../../src/localcluster/controlplane/ports.ts';
import { type Child, startChild, untilReady } from '../../src/localcluster/host/process.ts';
import {
  type Collector,
  collectorPki,
  type CollectorOptions,
  type ReceivedSpan,
  spansOf,
} from './collector.ts';
import { ensureTools, temporaryFolder } from './controlplane.ts';

/** Codes of gRPC, of which the receiver makes the status of HTTP. */
const codes = { 400: 3, 429: 8, 503: 14 } as const;

/** A real OpenTelemetry Collector on loopback (`controlplane/collector`). */
export async function startOtelCollector({ tls = false, token }: CollectorOptions = {}): Promise<Collector> {
  const tools = await ensureTools('collector');
  const pki = tls ? await collectorPki() : undefined;
  const folder = temporaryFolder();
  const [settingsFile, logFile] = [join(folder, 'settings.json'), join(folder, 'log')];
  const [port = 0] = await freePorts(1);
  const endpoint = `${tls ? 'https' : 'http'}://127.0.0.1:${port}`;
  const login = token === undefined ? {} : { auth: { authenticator: 'bearertokenauth' } };
  const certificate = pki === undefined ? {} : { tls: { cert_file: pki.certFile, key_file: pki.keyFile } };

  async function start(refuse: number): Promise<Child> {
    const settings = {
      receivers: {
        otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}`, ...login, ...certificate } } },
      },
      exporters: { lines: { refuse } },
      ...(token === undefined ? {} : { extensions: { bearertokenauth: { token } } }),
      service: {
        ...(token === undefined ? {} : { extensions: ['bearertokenauth'] }),
        pipelines: { traces: { receivers: ['otlp'], exporters: ['lines'] } },
      },
    };
    // JSON is YAML as well.
    await writeFile(settingsFile, JSON.stringify(settings));
    const command = [tools.path('otelcol'), `--config=${settingsFile}`] as const;
    const started = startChild({ name: 'otelcol', command, logFile });
    await untilReady(started, () => answers(endpoint), { timeoutMs: 60_000 });
    return started;
  }

  let child = await start(0);
  return {
    endpoint,
    caFile: pki?.certFile,
    get spans() {
      return spansIn(logFile);
    },
    async refuse(status) {
      await child.stop();
      child = await start(status === undefined ? 0 : codes[status]);
    },
    pause: () => void process.kill(child.pid, 'SIGSTOP'),
    resume: () => void process.kill(child.pid, 'SIGCONT'),
    stop: () => child.stop(0),
  };
}

async function answers(endpoint: string): Promise<boolean> {
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });
  try {
    const { body } = await request(endpoint, { dispatcher });
    await body.dump();
    return true;
  } finally {
    await dispatcher.destroy();
  }
}

/** What its exporter has written, each request on a line of its own, between what it logs. */
function spansIn(logFile: string): ReceivedSpan[] {
  const whole = readFileSync(logFile, 'utf8').split('\n').slice(0, -1);
  return whole.filter((line) => line.startsWith('{"resourceSpans":')).flatMap(spansOf);
}
