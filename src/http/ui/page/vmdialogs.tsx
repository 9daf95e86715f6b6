import { useState } from 'preact/hooks';
import type { VmItem } from '../../../wire/vmschemas.ts';
import { ApiError, call, inNamespace, messageOf, pathOf } from './api.ts';
import { FormDialog } from './formdialog.tsx';
import { useWork } from './notices.ts';
import { Confirm, Dialog, Problem } from './parts.tsx';
import { leftOutOfChange, meaningOfDeletion, offeredOfChange, outcomeOfChange } from './verbs.ts';

/** What a dialog of a verb is about. */
interface Asking {
  readonly vm: VmItem;
  readonly onClose: () => void;
  readonly onDone: (text: string) => void;
}

const firstToChange = [
  'cpu',
  'memory',
  'gpuPassthrough',
  'vncConsole',
  'customVMMetadata',
  'sshAuthorizedKeys',
];

/** Asks for the settings that are to be others, and says what of them waits for the next start. */
export function Change({ vm, onClose, onDone }: Asking) {
  const { name, pool } = vm;
  const change = async (body: Readonly<Record<string, unknown>>): Promise<void> =>
    onDone(outcomeOfChange(await call<VmItem>('PATCH', pathOf('vms', vm), body)));
  return (
    <FormDialog
      title={`Change ${name}`}
      schema="VMChangeRequest"
      left={leftOutOfChange}
      only={offeredOfChange(vm)}
      first={firstToChange}
      unset="As it is"
      verb="Change"
      send={change}
      onClose={onClose}
    >
      <p>
        What is left empty stays as it is; metadata and lists that are given replace those that are there.
        Most of it applies when the guest is started next.
        {pool === undefined ? null : ` All else is as the template of pool ${pool} has it.`}
      </p>
    </FormDialog>
  );
}

/** Says what ejecting the ISO means, and does it. */
export function Eject({ vm: { namespace, name, uid, iso }, onClose, onDone }: Asking) {
  const eject = async (): Promise<void> => {
    const path = inNamespace(namespace, 'vms', name, 'eject');
    onDone((await call<{ message: string }>('POST', path, { uid })).body.message);
  };
  return (
    <Confirm title={`Eject the ISO of ${name}?`} verb="Eject" act={eject} onClose={onClose}>
      <p>The CD drive becomes empty; a guest that reads from {iso} does not find it any more.</p>
    </Confirm>
  );
}

/** Asks for the image that the disk is saved as, with the memory where that can be saved. */
export function Save({ vm: { namespace, name, uid, saves = [] }, onClose, onDone }: Asking) {
  const [isWanted, setWanted] = useState(false);
  const canHaveMemory = saves.includes('Memory');
  const [imageName, setImageName] = useState(`${name}-saved`);
  const [description, setDescription] = useState('');
  const [problem, setProblem] = useState<string>();
  const title = `Save the disk of ${name}`;
  const { isBusy, begin } = useWork(title, {
    onDone: onClose,
    onFailure: (error) => setProblem(messageOf(error)),
  });
  const save = async (): Promise<void> => {
    const body = {
      imageName,
      uid,
      ...(description === '' ? {} : { description }),
      // The guest may have ended since it was ticked.
      ...(isWanted && canHaveMemory ? { memory: true } : {}),
    };
    await call('POST', inNamespace(namespace, 'vms', name, 'save'), body);
    onDone(`The disk is being saved as image ${imageName}.`);
  };
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (isBusy) return;
    setProblem(undefined);
    begin(save);
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <p>The disk as it is now becomes a new image. The VM goes on.</p>
      <form onSubmit={submit}>
        <div class="field">
          <label for="save-name">Name of the image</label>
          <input
            id="save-name"
            value={imageName}
            autocomplete="off"
            spellcheck={false}
            onInput={({ currentTarget }) => setImageName(currentTarget.value)}
          />
        </div>
        <div class="field">
          <label for="save-description">Description</label>
          <input
            id="save-description"
            value={description}
            autocomplete="off"
            onInput={({ currentTarget }) => setDescription(currentTarget.value)}
          />
        </div>
        {canHaveMemory ? (
          <label class="check">
            <input
              type="checkbox"
              checked={isWanted}
              onChange={({ currentTarget }) => setWanted(currentTarget.checked)}
            />
            With the memory of the guest: VMs from the image go on where it was
          </label>
        ) : null}
        <Problem text={problem} />
        <div class="buttons">
          <button class="main" aria-disabled={isBusy}>
            Save
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** Says what committing the disk to its image means, and does it. */
export function Commit({ vm: { namespace, name, uid, image }, onClose, onDone }: Asking) {
  const commit = async (): Promise<void> => {
    await call('POST', inNamespace(namespace, 'vms', name, 'commit'), { uid });
    onDone(`The disk is becoming the new content of image ${image ?? ''}.`);
  };
  return (
    <Confirm title={`Commit the disk of ${name}?`} verb="Commit" act={commit} onClose={onClose}>
      <p>
        The disk as it is now becomes the content of image {image}: VMs that are deployed from it after that
        have this disk. VMs that are there keep theirs.
      </p>
    </Confirm>
  );
}

/** Says what goes with the VM, and deletes it. */
export function Delete({ vm, onClose, onDone }: Asking) {
  const { name, deletes = [] } = vm;
  const { guest, disks } = meaningOfDeletion(vm);
  const [isDiskDeleted, setDiskDeleted] = useState(false);
  const remove = async (): Promise<void> => {
    const query = { wait: 'false', ...(isDiskDeleted ? { deleteDisk: 'true' } : {}) };
    try {
      const { body, warnings } = await call<{ message?: string }>('DELETE', pathOf('vms', vm, { query }));
      onDone([body.message ?? '', ...warnings].join(' '));
    } catch (error) {
      // Somebody else was faster.
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  };
  return (
    <Confirm title={`Delete ${name}?`} verb="Delete" act={remove} onClose={onClose}>
      <p>{guest}</p>
      <p>{disks}</p>
      {deletes.includes('disk') ? null : (
        <label class="check">
          <input
            type="checkbox"
            checked={isDiskDeleted}
            onChange={({ currentTarget }) => setDiskDeleted(currentTarget.checked)}
          />
          Delete the disk that it boots from, too, where that is Persistent
        </label>
      )}
    </Confirm>
  );
}
