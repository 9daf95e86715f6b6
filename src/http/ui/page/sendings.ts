import { useCallback, useEffect, useMemo, useState } from 'preact/hooks';
import { messageOf } from './api.ts';
import type { UploadProgress } from './sending.ts';
import { Turns } from './turns.ts';
import { nameOfFile, upload, type UploadRequest } from './upload.ts';

/** An upload as it is shown. */
export interface Sending {
  readonly id: number;
  readonly kind: UploadRequest['kind'];
  readonly namespace: string;
  readonly name: string;
  /** Percent of the file that has left. */
  readonly share: number;
  /** Others are sent before. */
  readonly isToCome: boolean;
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
  /** Gives up those that are under way, and waits until the store has let go of them, 5 s at most. */
  readonly end: () => Promise<void>;
}

interface UnderWay {
  /** Of the upload's object. */
  readonly target: string;
  readonly stop: () => void;
  /** Settles when nothing more is asked of the server for it. */
  readonly over: Promise<void>;
}

const endMs = 5_000;

function isSentTo(underWay: ReadonlySet<UnderWay>, target: string): boolean {
  return [...underWay].some((one) => one.target === target);
}

function stopAll(underWay: Iterable<UnderWay>): void {
  for (const { stop } of underWay) stop();
}

/** How many files are sent at a time; the server reads only a few of one user. */
const mostAtATime = 3;

export function useSendings(): Sendings {
  const [all, setAll] = useState<readonly Sending[]>([]);
  const [turns] = useState(() => new Turns(mostAtATime));
  const [underWay] = useState(() => new Set<UnderWay>());
  useEffect(() => () => stopAll(underWay), [underWay]);
  const begin = useCallback<Sendings['begin']>(
    (file, to) => {
      const id = performance.now() + Math.random();
      const stopping = new AbortController();
      const stop = (): void => stopping.abort();
      const name = nameOfFile(file.name);
      const change = (what: Partial<Sending>): void =>
        setAll((present) => present.map((one) => (one.id === id ? Object.assign({}, one, what) : one)));
      const added = { id, ...to, name, share: 0, isToCome: true, isDone: false, stop };
      const target = `${to.kind}/${to.namespace}/${name}`;
      if (isSentTo(underWay, target)) {
        const problem = 'another file is being uploaded under this name';
        setAll((present) => [...present, { ...added, problem, isDone: true }]);
        return;
      }
      setAll((present) => [...present, added]);
      const progress: UploadProgress = {
        sent: (bytes) =>
          change({
            share: file.size === 0 ? 100 : Math.floor((bytes / file.size) * 100),
            waiting: undefined,
          }),
        waiting: (why) => change({ waiting: why }),
      };
      const { signal } = stopping;
      const send = (): Promise<void> => {
        change({ isToCome: false });
        return upload({ ...to, name, file, signal }, progress);
      };
      const over = turns
        .run(signal, send)
        .then(() => change({ share: 100, isDone: true }))
        .catch((error: unknown) => change({ problem: messageOf(error), isDone: true }))
        .finally(() => underWay.delete(one));
      const one: UnderWay = { target, stop, over };
      underWay.add(one);
    },
    [turns, underWay],
  );
  const end = useCallback(async () => {
    const left = [...underWay];
    stopAll(left);
    const late = new Promise((resolve) => setTimeout(resolve, endMs));
    await Promise.race([Promise.all(left.map(({ over }) => over)), late]);
  }, [underWay]);
  const forgetDone = useCallback<Sendings['forgetDone']>(
    (kind) => setAll((present) => present.filter((one) => !(one.isDone && one.kind === kind))),
    [],
  );
  return useMemo(() => ({ all, begin, forgetDone, end }), [all, begin, forgetDone, end]);
}
