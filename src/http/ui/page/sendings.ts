import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
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
}

/** How many files are sent at a time; the server reads only a few of one user. */
const mostAtATime = 3;

export function useSendings(): Sendings {
  const [all, setAll] = useState<readonly Sending[]>([]);
  const turns = useRef<Turns>(undefined);
  turns.current ??= new Turns(mostAtATime);
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
    setAll((present) => [...present, { id, ...to, name, share: 0, isToCome: true, isDone: false, stop }]);
    const progress: UploadProgress = {
      sent: (bytes) =>
        change({
          share: file.size === 0 ? 100 : Math.floor((bytes / file.size) * 100),
          waiting: undefined,
        }),
      waiting: (why) => change({ waiting: why }),
    };
    const { signal } = stopping;
    turns.current
      ?.run(signal, () => {
        change({ isToCome: false });
        return upload({ ...to, name, file, signal }, progress);
      })
      .then(() => change({ share: 100, isDone: true }))
      .catch((error: unknown) => change({ problem: messageOf(error), isDone: true }));
  }, []);
  const forgetDone = useCallback<Sendings['forgetDone']>(
    (kind) => setAll((present) => present.filter((one) => !(one.isDone && one.kind === kind))),
    [],
  );
  return useMemo(() => ({ all, begin, forgetDone }), [all, begin, forgetDone]);
}
