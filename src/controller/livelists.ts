/** Lists of a namespace as kube-apiserver has them now. */
export type LiveList<T> = (namespace: string) => Promise<readonly T[]>;

interface Reading<T> {
  readonly running: Promise<readonly T[]>;
  next: Promise<readonly T[]> | undefined;
}

/**
 * A thousand VMs that are deleted at once ask for one list. Whoever asks while one is being read gets the next, since an
 * answer must not be older than its question.
 */
export function createLiveLists<T>(read: LiveList<T>): LiveList<T> {
  const readings = new Map<string, Reading<T>>();

  function start(namespace: string): Promise<readonly T[]> {
    const running = read(namespace).finally(() => {
      if (readings.get(namespace)?.next === undefined) readings.delete(namespace);
    });
    readings.set(namespace, { running, next: undefined });
    return running;
  }

  return (namespace) => {
    const reading = readings.get(namespace);
    if (reading === undefined) return start(namespace);
    const again = (): Promise<readonly T[]> => start(namespace);
    reading.next ??= reading.running.then(again, again);
    return reading.next;
  };
}
