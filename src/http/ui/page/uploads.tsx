import { useEffect, useState } from 'preact/hooks';
import { Problem } from './parts.tsx';
import type { Sending, Sendings } from './sendings.ts';
import type { UploadRequest } from './upload.ts';

/** What is said of an upload beside its bar. */
function statusOf({ isToCome, waiting, problem, isDone }: Sending): string {
  if (isDone) return problem === undefined ? 'Sent.' : '';
  if (isToCome) return 'Waiting for its turn';
  return waiting === undefined ? '' : `Waiting for the server: ${waiting}`;
}

function Progress({ one, namespace }: { readonly one: Sending; readonly namespace: string }) {
  const { namespace: to, name, share, problem, isDone, stop } = one;
  return (
    <div class="buttons">
      <span>{to === namespace ? name : `${to}/${name}`}</span>
      <progress value={share} max={100} aria-label={`Upload of ${name}`} />
      <span role="status">{statusOf(one)}</span>
      {isDone ? null : (
        <button type="button" onClick={stop} aria-label={`Give up ${name}`}>
          Give up
        </button>
      )}
      <Problem text={problem} />
    </div>
  );
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
        .map((one) => (
          <Progress key={one.id} one={one} namespace={namespace} />
        ))}
    </section>
  );
}
