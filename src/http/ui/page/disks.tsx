import { useState } from 'preact/hooks';
import type { ImageItem } from '../../../wire/schemas.ts';
import { call, inNamespace, messageOf } from './api.ts';
import { inOrder, namingColumns } from './columns.tsx';
import { keyOf } from './items.ts';
import { Badge, Confirm, Problem, Table, type Column } from './parts.tsx';
import { type Rights, useRights } from './rights.ts';
import { nameOfFile, upload } from './upload.ts';
import { timeOf } from './vm.tsx';

/** What differs between images and ISOs. */
const words = {
  images: {
    title: 'Images',
    one: 'image',
    upload: 'uploadImage',
    remove: 'deleteImage',
    download: 'downloadImage',
  },
  isos: { title: 'ISOs', one: 'iso', upload: 'uploadIso', remove: 'deleteIso', download: 'downloadIso' },
} as const;

/** Images or ISOs of the store, with the progress of those that are being made, and files on their way into it. */
export function Disks({
  kind,
  items,
  namespace,
  target,
  isKnown,
  rights,
}: {
  readonly kind: keyof typeof words;
  readonly items: ReadonlyMap<string, ImageItem>;
  readonly namespace: string;
  /** Where uploads go. */
  readonly target: string;
  readonly isKnown: boolean;
  readonly rights: Rights;
}) {
  const { title, one, upload: uploadRight } = words[kind];
  const [going, setGoing] = useState<ImageItem>();
  const columns: readonly Column<ImageItem>[] = [
    ...namingColumns<ImageItem>(namespace),
    { title: 'State', cell: (disk) => <State disk={disk} /> },
    { title: 'Size', cell: ({ size }) => size ?? '–' },
    { title: 'Description', cell: ({ description }) => description ?? '–' },
    { title: 'Created', cell: ({ createdAt }) => timeOf(createdAt) },
    {
      title: 'Actions',
      cell: (disk) => <Actions kind={kind} disk={disk} onDelete={() => setGoing(disk)} />,
    },
  ];
  const disks = inOrder(items);
  return (
    <main>
      <h1>{title}</h1>
      {rights.has(uploadRight) ? <Uploads kind={one} namespace={target} /> : null}
      <Table
        caption={title}
        columns={columns}
        items={disks}
        keyOf={keyOf}
        empty={isKnown ? 'There are none here.' : 'Loading …'}
      />
      {going === undefined ? null : (
        <Confirm
          title={`Delete ${going.name}?`}
          verb="Delete"
          act={() => call('DELETE', inNamespace(going.namespace, kind, going.name))}
          onClose={() => setGoing(undefined)}
        >
          <p>
            It is gone for good. VMs that run keep their disks; VMs and configurations that name it do not
            start from it any more.
          </p>
        </Confirm>
      )}
    </main>
  );
}

function Actions({
  kind,
  disk: { namespace, name, state },
  onDelete,
}: {
  readonly kind: keyof typeof words;
  readonly disk: ImageItem;
  readonly onDelete: () => void;
}) {
  const rights = useRights(namespace);
  const { remove, download } = words[kind];
  return (
    <span class="buttons">
      {rights.has(download) && state === 'Ready' ? (
        <a download href={inNamespace(namespace, kind, name, 'download')} aria-label={`Download ${name}`}>
          Download
        </a>
      ) : null}
      {rights.has(remove) ? (
        <button type="button" class="danger" aria-label={`Delete ${name}`} onClick={onDelete}>
          Delete …
        </button>
      ) : null}
    </span>
  );
}

function State({ disk: { name, state, progress, errorMessage } }: { readonly disk: ImageItem }) {
  return (
    <>
      <Badge text={state} />
      {state === 'Updating' && progress !== undefined ? (
        <progress value={progress} max={100} aria-label={`Progress of ${name}`} />
      ) : null}
      {errorMessage === undefined ? null : <p class="why">{errorMessage}</p>}
    </>
  );
}

interface Sending {
  readonly id: number;
  readonly name: string;
  readonly share: number;
  readonly problem?: string;
  readonly isDone: boolean;
  readonly stop: () => void;
}

function Uploads({ kind, namespace }: { readonly kind: 'image' | 'iso'; readonly namespace: string }) {
  const [sendings, setSendings] = useState<readonly Sending[]>([]);
  const [isOver, setOver] = useState(false);

  function begin(file: File): void {
    const id = performance.now() + Math.random();
    const stopping = new AbortController();
    const name = nameOfFile(file.name);
    const change = (what: Partial<Sending>): void =>
      setSendings((present) => present.map((one) => (one.id === id ? Object.assign({}, one, what) : one)));
    const stop = (): void => stopping.abort();
    setSendings((present) => [...present, { id, name, share: 0, isDone: false, stop }]);
    upload({ namespace, kind, name, file, signal: stopping.signal }, (sent) =>
      change({ share: file.size === 0 ? 100 : Math.floor((sent / file.size) * 100) }),
    )
      .then(() => change({ share: 100, isDone: true }))
      .catch((error: unknown) => change({ problem: messageOf(error), isDone: true }));
  }

  function drop(event: DragEvent): void {
    event.preventDefault();
    setOver(false);
    for (const file of event.dataTransfer?.files ?? []) begin(file);
  }

  return (
    <section
      class={isOver ? 'drop over' : 'drop'}
      aria-label="Upload"
      onDragOver={(event: DragEvent) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <label for="files">Drop files here to upload them to {namespace}, or choose them</label>
      <input
        id="files"
        type="file"
        multiple
        onChange={({ currentTarget }) => {
          for (const file of currentTarget.files ?? []) begin(file);
          currentTarget.value = '';
        }}
      />
      {sendings.map(({ id, name, share, problem, isDone, stop }) => (
        <div key={id} class="buttons">
          <span>{name}</span>
          <progress value={share} max={100} aria-label={`Upload of ${name}`} />
          {isDone ? (
            <span role="status">{problem === undefined ? 'Sent.' : ''}</span>
          ) : (
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
