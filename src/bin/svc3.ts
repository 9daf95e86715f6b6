#!/usr/bin/env node
/** The command line: joins the process, the two ways to svc3 and the local cluster to the commands. */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { main } from '../cli/main.ts';
import { guardOutput } from '../cli/unread.ts';
import { messageOf } from '../errors.ts';
import type { Environment } from '../cli/environment.ts';

const abort = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => abort.abort());

const output = guardOutput(process);

// Whatever nobody caught (an error event of a socket) is one line too, never a stack trace.
process.on('uncaughtException', (error) => {
  process.stderr.write(`svc3: ${messageOf(error)}\n`);
  process.exit(1);
});

const environment: Environment = {
  variables: process.env,
  home: homedir(),
  program: [process.execPath, join(import.meta.dirname, 'svc3.mjs')],
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: abort.signal,
  endWhenUnread: () => output.endWhenUnread(),
  now: () => new Date(),
};

const exitCode = await main(process.argv.slice(2), environment, {
  openKubernetes: async (target) => (await import('../cli/kubernetes.ts')).openKubernetes(target),
  openServer: async (target) => (await import('../cli/kubernetes.ts')).openServer(target),
  openHttp: async (target) => (await import('../cli/service/http/service.ts')).openHttp(target),
  openIssuer: async (caFile) => (await import('../cli/oidc/issuer.ts')).openIssuer(caFile),
  localCluster: async () => (await import('../cli/dev.ts')).createLocalCluster(environment),
});
output.end(exitCode);
