import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { messageOf } from './api.ts';
import { Problem } from './parts.tsx';
import { nameOfFile, upload, type UploadRequest } from './upload.ts';

interface Sending {
  readonly id: number;
  readonly kind: UploadRequest['kind'];
  readonly namespace: string;
  readonly name: string;
  /** Percent of the file that has left. */
  readonly share: number;
  /** Why nothing is sent now. */
  readonly waiting?: string | undefined;
  readonly problem?: string;
  readonly isDone: boolean;
  readonly stop: () => void;
}

/** The uploads of a session: they go on while somebody looks at something else, and end with the session. */
export interface Sendings {
  readonly all: readonly Sending[];
  readonly begin: (file: File, to: Pick<UploadRequest, 'namespace' | 'kind'>) => void;
  /** Those of a kind that are over are shown no more; what became of the other kind nobody may have seen. */
  readonly forgetDone: (kind: UploadRequest['kind']) => void;
}

export function useSendings(): Sendings {
  const [all, setAll] = useState<readonly Sending[]>([]);
  const session = useRef<AbortController>(undefined);
  session.current ??= new AbortController();
  useEffect(() => () => session.current?.abort(), []);
  const begin = useCallback<Sendings['begin']>((file, to) => {
    const id = performance.now() + Math.random();
    const stopping = new AbortController();
    const stop = (): void => stopping.abort();
    session.current?.signal.addEventListener('abort', stop);
    const name = nameOfFile(file.name);
    const change = (what: Partial<Sending>): void =>
      setAll((present) => present.map((one) => (one.id === id ? Object.assign({}, one, what) : one)));
    setAll((present) => [...present, { id, ...to, name, share: 0, isDone: false, stop }]);
    upload(
      { ...to, name, file, signal: stopping.signal },
      {
        sent: (bytes) =>
          change({
            share: file.size === 0 ? 100 : Math.floor((bytes / file.size) * 100),
            waiting: undefined,
          }),
        waiting: (why) => change({ waiting: why }),
      },
    )
      .then(() => change({ share: 100, isDone: true }))
      .catch((error: unknown) => change({ problem: messageOf(error), isDone: true }));
  }, []);
  const forgetDone = useCallback<Sendings['forgetDone']>(
    (kind) => setAll((present) => present.filter((one) => !(one.isDone && one.kind === kind))),
    [],
  );
  return useMemo(() => ({ all, begin, forgetDone }), [all, begin, forgetDone]);
}

/** What is said of an upload beside its bar. */
function statusOf({
  waiting,
  problem,
  isDone,
}: {
  readonly waiting: string | undefined;
  readonly problem: string | undefined;
  readonly isDone: boolean;
}): string {
  if (isDone) return problem === undefined ? 'Sent.' : '';
  return waiting === undefined ? '' : `Waiting for the server: ${waiting}`;
}

/** Where files are dropped or chosen, and those on their way. */
export function Uploads({
  kind,
  namespace,
  sendings: { all, begin, forgetDone },
}: {
  readonly kind: UploadRequest['kind'];
  readonly namespace: string;
  readonly sendings: Sendings;
}) {
  const [isOver, setOver] = useState(false);
  useEffect(() => () => forgetDone(kind), [forgetDone, kind]);
  // A browser opens a file that misses the field, and leaves the page: anywhere on it will do.
  useEffect(() => {
    const over = (event: DragEvent): void => {
      event.preventDefault();
      setOver(true);
    };
    const leave = ({ relatedTarget }: DragEvent): void => {
      if (relatedTarget === null) setOver(false);
    };
    const drop = (event: DragEvent): void => {
      event.preventDefault();
      setOver(false);
      for (const file of event.dataTransfer?.files ?? []) begin(file, { kind, namespace });
    };
    document.addEventListener('dragover', over);
    document.addEventListener('dragleave', leave);
    document.addEventListener('drop', drop);
    return () => {
      document.removeEventListener('dragover', over);
      document.removeEventListener('dragleave', leave);
      document.removeEventListener('drop', drop);
    };
  }, [begin, kind, namespace]);

  return (
    <section class={isOver ? 'drop over' : 'drop'} aria-label="Upload">
      <label for="files">Drop files here to upload them to {namespace}, or choose them</label>
      <input
        id="files"
        type="file"
        multiple
        onChange={({ currentTarget }) => {
          for (const file of currentTarget.files ?? []) begin(file, { kind, namespace });
          currentTarget.value = '';
        }}
      />
      {all
        .filter((one) => one.kind === kind)
        .map(({ id, namespace: to, name, share, waiting, problem, isDone, stop }) => (
          <div key={id} class="buttons">
            <span>{to === namespace ? name : `${to}/${name}`}</span>
            <progress value={share} max={100} aria-label={`Upload of ${name}`} />
            <span role="status">{statusOf({ waiting, problem, isDone })}</span>
            {isDone ? null : (
              <button type="button" onClick={stop} aria-label={`Give up ${name}`}>
                Give up
              </button>
            )}
            <Problem text={problem} />
          </div>
        ))}
    </section>
  );
}
