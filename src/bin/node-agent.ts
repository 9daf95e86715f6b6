import { fieldManagers } from '../api/meta.ts';
import { kubeConnection, readSettings } from '../config.ts';
import { runProcess } from '../controller/run.ts';
import { createClient } from '../kube/client.ts';
import { createRecorder, eventDrainMs } from '../kube/recorder.ts';
import { AgentSettings, createNodeAgent } from '../nodeagent/agent.ts';
import { createLogger, createMetrics, serveHealth } from '../telemetry.ts';

const settings = readSettings(AgentSettings);
const log = createLogger({ name: 'node-agent', level: settings.SVC3_LOG_LEVEL });

async function start(signal: AbortSignal): Promise<void> {
  const metrics = createMetrics();
  const client = createClient(await kubeConnection(settings), {
    userAgent: `svc3-node-agent/${settings.NODE_NAME}`,
    fieldManager: fieldManagers.nodeAgent,
    onCall: metrics.kubeCall,
  });
  const recorder = createRecorder(client, {
    component: 'node-agent',
    instance: settings.POD_NAME,
    log,
    onDropped: metrics.eventDropped,
  });
  const agent = createNodeAgent({ client, recorder, log, metrics, settings });
  const health = await serveHealth({
    port: settings.SVC3_HEALTH_PORT,
    ...(settings.SVC3_HEALTH_HOST === undefined ? {} : { host: settings.SVC3_HEALTH_HOST }),
    ready: agent.isReady,
    live: () => true,
    metrics: metrics.registry,
  });
  try {
    await agent.run(signal);
    await recorder.drain(eventDrainMs);
  } finally {
    await health.close();
    await client.close();
  }
}

await runProcess({ name: 'node-agent', log, start, graceMs: settings.SVC3_SHUTDOWN_GRACE_MS });
