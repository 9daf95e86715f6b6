import { useEffect, useRef, useState } from 'preact/hooks';
import type { VmUsage } from '../../../api/vmusage.ts';
import { ApiError, call, inNamespace, messageOf } from './api.ts';
import { type Column, Table } from './parts.tsx';
import {
  bytesText,
  coresText,
  type History,
  noHistory,
  nowOf,
  pathOf,
  type Plot,
  plotsOf,
  type Sample,
  speedText,
  withUsage,
  wordsOf,
} from './usage.ts';

const everyMs = 2_000;
/** What stays refused for as long as the VM is in its state. */
const lasting = new Set([401, 403, 404, 501]);

/** Draws anew every two seconds while it is on. */
function useTicks(isOn: boolean): void {
  const [, setTicks] = useState(0);
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => setTicks((ticks) => ticks + 1), everyMs);
    return () => clearInterval(timer);
  }, [isOn]);
}

interface Known {
  readonly history: History;
  /** The time by the clock of the figures, where the last ones are not of now. */
  readonly nowMs: number | undefined;
  readonly refusal: string | undefined;
}

/** What the VM has used while somebody looks and its guest runs. */
function useUsage(namespace: string, name: string, isRunning: boolean): Known {
  const [history, setHistory] = useState(noHistory);
  const [refusal, setRefusal] = useState<string>();
  const [isAnswering, setAnswering] = useState(false);
  /** Milliseconds by which the clock of the figures is ahead of the browser's. */
  const ahead = useRef(0);
  useEffect(() => {
    setRefusal(undefined);
    setAnswering(false);
    if (!isRunning) return undefined;
    let isOver = false;
    let isAsking = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async (): Promise<void> => {
      try {
        const { body } = await call<VmUsage>('GET', inNamespace(namespace, 'vms', name, 'usage'));
        if (isOver) return;
        ahead.current = Date.parse(body.timestamp) - Date.now();
        setHistory((known) => withUsage(known, body));
        setRefusal(undefined);
        setAnswering(true);
      } catch (error) {
        if (isOver) return;
        setRefusal(messageOf(error));
        setAnswering(false);
        isOver = error instanceof ApiError && lasting.has(error.status);
      }
    };
    const look = (): void => {
      clearTimeout(timer);
      // What is shown first to who comes back was true when they left.
      if (document.hidden) setAnswering(false);
      if (isOver || isAsking || document.hidden) return;
      isAsking = true;
      void ask().then(() => {
        isAsking = false;
        if (!isOver) timer = setTimeout(look, everyMs);
      });
    };
    look();
    document.addEventListener('visibilitychange', look);
    return () => {
      isOver = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', look);
    };
  }, [namespace, name, isRunning]);
  const isCurrent = history.last === undefined || (isRunning && isAnswering);
  useTicks(!isCurrent);
  return { history, refusal, nowMs: isCurrent ? undefined : Date.now() + ahead.current };
}

/** Of the drawing; the page stretches it. */
const size = { width: 300, height: 80 } as const;

function Drawing({ plot }: { readonly plot: Plot }) {
  const { title, series, text, ceiling } = plot;
  return (
    <figure class="plot">
      <figcaption>
        <strong>{title}</strong>
        {series.map((one) => (
          <span key={one.name} class="key">
            {one.name} {nowOf(plot, one)}
          </span>
        ))}
      </figcaption>
      <svg
        role="img"
        aria-label={wordsOf(plot)}
        viewBox={`0 0 ${size.width} ${size.height}`}
        preserveAspectRatio="none"
      >
        <path class="grid" d={`M0 ${size.height / 2}H${size.width}`} />
        {series.map((one) => (
          <path key={one.name} class="line" d={pathOf(plot, one.values, size)} />
        ))}
      </svg>
      <span class="help">0 to {text(ceiling)}</span>
    </figure>
  );
}

const cellOf =
  (key: Exclude<keyof Sample, 'timestamp' | 'atMs'>, text: Plot['text']) =>
  (sample: Sample): string => {
    const value = sample[key];
    return value === undefined ? '–' : text(value);
  };
const columns: readonly Column<Sample>[] = [
  { title: 'Time', cell: ({ atMs }) => new Date(atMs).toLocaleTimeString() },
  { title: 'CPU', cell: cellOf('cores', coresText) },
  { title: 'Guest memory', cell: cellOf('used', bytesText) },
  { title: 'Node memory', cell: cellOf('resident', bytesText) },
  { title: 'Read', cell: cellOf('read', speedText) },
  { title: 'Written', cell: cellOf('written', speedText) },
  { title: 'In', cell: cellOf('received', speedText) },
  { title: 'Out', cell: cellOf('sent', speedText) },
];
/** Half a minute: older ones are in the plots. */
const shownValues = 15;

/** What a VM uses: four plots of the last minutes, and the last values as a table. Its place is taken from the beginning on. */
export function Usage({
  namespace,
  name,
  isRunning,
}: {
  readonly namespace: string;
  readonly name: string;
  readonly isRunning: boolean;
}) {
  const { history, refusal, nowMs } = useUsage(namespace, name, isRunning);
  const [isOpen, setOpen] = useState(false);
  return (
    <section aria-labelledby="usage">
      <h2 id="usage">Usage</h2>
      <p class="help note">
        {refusal ?? 'The last five minutes, from when this page is open on, while the guest runs.'}
      </p>
      <div class="plots">
        {plotsOf(history, nowMs).map((plot) => (
          <Drawing key={plot.title} plot={plot} />
        ))}
      </div>
      <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>Last values</summary>
        {isOpen ? (
          <Table
            caption="Last values"
            columns={columns}
            items={history.samples.slice(-shownValues).toReversed()}
            keyOf={({ timestamp }) => timestamp}
            empty="None yet."
          />
        ) : null}
      </details>
    </section>
  );
}
