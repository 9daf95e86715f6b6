import { useState } from 'preact/hooks';
import type { ImageItem } from '../../../wire/schemas.ts';
import { call, inNamespace, messageOf } from './api.ts';
import { inOrder, namingColumns } from './columns.tsx';
import { CopyDisk, DescribeDisk, EmptyImage, Pull, type AskedOfDisk, type DiskKind } from './diskforms.tsx';
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
    pull: 'pullImage',
    copy: 'copyImage',
    describe: 'describeImage',
    remove: 'deleteImage',
    download: 'downloadImage',
  },
  isos: {
    title: 'ISOs',
    one: 'iso',
    upload: 'uploadIso',
    pull: 'pullIso',
    copy: 'copyIso',
    describe: 'describeIso',
    remove: 'deleteIso',
    download: 'downloadIso',
  },
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
  readonly kind: DiskKind;
  readonly items: ReadonlyMap<string, ImageItem>;
  readonly namespace: string;
  /** Where uploads go. */
  readonly target: string;
  readonly isKnown: boolean;
  readonly rights: Rights;
}) {
  const { title, one, upload: uploadRight, pull } = words[kind];
  const [asked, setAsked] = useState<AskedOfDisk>();
  const [making, setMaking] = useState<'pull' | 'empty'>();
  const close = (): void => setAsked(undefined);
  const closeMaking = (): void => setMaking(undefined);
  const columns: readonly Column<ImageItem>[] = [
    ...namingColumns<ImageItem>(namespace),
    { title: 'State', cell: (disk) => <State disk={disk} /> },
    { title: 'Size', cell: ({ size }) => size ?? '–' },
    { title: 'Description', cell: ({ description }) => description ?? '–' },
    { title: 'Created', cell: ({ createdAt }) => timeOf(createdAt) },
    {
      title: 'Actions',
      cell: (disk) => <Actions kind={kind} disk={disk} onAsk={setAsked} />,
    },
  ];
  const disks = inOrder(items);
  return (
    <main>
      <div class="title">
        <h1>{title}</h1>
        <span class="buttons">
          {rights.has(pull) ? (
            <button type="button" onClick={() => setMaking('pull')}>
              Pull …
            </button>
          ) : null}
          {kind === 'images' && rights.has('generateImage') ? (
            <button type="button" onClick={() => setMaking('empty')}>
              New empty image …
            </button>
          ) : null}
        </span>
      </div>
      {making === 'pull' ? <Pull kind={kind} namespace={target} onClose={closeMaking} /> : null}
      {making === 'empty' ? <EmptyImage namespace={target} onClose={closeMaking} /> : null}
      {asked?.what === 'copy' ? <CopyDisk kind={kind} disk={asked.disk} onClose={close} /> : null}
      {asked?.what === 'describe' ? <DescribeDisk kind={kind} disk={asked.disk} onClose={close} /> : null}
      {rights.has(uploadRight) ? <Uploads kind={one} namespace={target} /> : null}
      <Table
        caption={title}
        columns={columns}
        items={disks}
        keyOf={keyOf}
        empty={isKnown ? 'There are none here.' : 'Loading …'}
      />
      {asked?.what === 'delete' ? (
        <Confirm
          title={`Delete ${asked.disk.name}?`}
          verb="Delete"
          act={() => call('DELETE', inNamespace(asked.disk.namespace, kind, asked.disk.name))}
          onClose={close}
        >
          <p>
            It is gone for good. VMs that run keep their disks; VMs and configurations that name it do not
            start from it any more.
          </p>
        </Confirm>
      ) : null}
    </main>
  );
}

const verbs = [
  { what: 'copy', label: 'Copy' },
  { what: 'describe', label: 'Describe' },
] as const;

function Actions({
  kind,
  disk,
  onAsk,
}: {
  readonly kind: DiskKind;
  readonly disk: ImageItem;
  readonly onAsk: (asked: AskedOfDisk) => void;
}) {
  const { namespace, name, state } = disk;
  const rights = useRights(namespace);
  const needs = words[kind];
  return (
    <span class="buttons">
      {rights.has(needs.download) && state === 'Ready' ? (
        <a download href={inNamespace(namespace, kind, name, 'download')} aria-label={`Download ${name}`}>
          Download
        </a>
      ) : null}
      {verbs
        .filter(({ what }) => rights.has(needs[what]))
        .map(({ what, label }) => (
          <button
            key={what}
            type="button"
            aria-label={`${label} ${name}`}
            onClick={() => onAsk({ what, disk })}
          >
            {label} …
          </button>
        ))}
      {rights.has(needs.remove) ? (
        <button
          type="button"
          class="danger"
          aria-label={`Delete ${name}`}
          onClick={() => onAsk({ what: 'delete', disk })}
        >
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
