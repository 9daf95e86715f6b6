import { useState } from 'preact/hooks';
import { powerCommands, type PowerCommand } from '../../../wire/powercommands.ts';
import type { VmItem } from '../../../wire/vmschemas.ts';
import { call, inNamespace } from './api.ts';
import { Console } from './console.tsx';
import { Log } from './log.tsx';
import { Act, Confirm, Problem } from './parts.tsx';
import type { Rights } from './rights.ts';
import { titleOf } from './schema.ts';
import { Serial } from './serial.tsx';
import { consequenceOf } from './verbs.ts';
import { Change, Commit, Delete, Eject, Save } from './vmdialogs.tsx';

type Asked = PowerCommand | 'change' | 'save' | 'commit' | 'eject' | 'delete';

/** What may be done with a VM as it is now, its screen, its serial console and the log of its pod. */
export function Actions({
  vm,
  rights,
  done,
  onDone: setDone,
}: {
  readonly vm: VmItem;
  readonly rights: Rights;
  /** What the last verb that was carried out has said. */
  readonly done: string;
  readonly onDone: (text: string) => void;
}) {
  const { namespace, name, uid, saves = [] } = vm;
  const [asked, setAsked] = useState<Asked>();
  const [problem, setProblem] = useState<string>();
  const [hasScreen, setScreen] = useState(false);
  const [hasSerial, setSerial] = useState(false);
  const [hasLog, setLog] = useState(false);
  const close = (): void => setAsked(undefined);
  const exec = async (command: PowerCommand): Promise<void> => {
    const path = `${inNamespace(namespace, 'vms', name, 'exec')}?wait=false`;
    setDone((await call<{ message: string }>('POST', path, { command, uid })).body.message);
  };
  // What is open can be closed, whatever has become of the VM and the rights since.
  const isUp = vm.status === 'Running' || vm.status === 'Suspended';
  const commands = rights.has('execVm') ? (vm.commands ?? []) : [];
  return (
    <>
      <div class="buttons">
        {commands.map((command) =>
          consequenceOf(command, vm) !== undefined ? (
            <button key={command} type="button" onClick={() => setAsked(command)}>
              {titleOf(command)} …
            </button>
          ) : (
            <Act
              key={command}
              label={titleOf(command)}
              about={`${titleOf(command)} ${name}`}
              act={() => exec(command)}
              onProblem={setProblem}
            />
          ),
        )}
        {isUp && (hasScreen || (rights.has('openConsole') && vm.vncConsole)) ? (
          <button type="button" aria-pressed={hasScreen} onClick={() => setScreen(!hasScreen)}>
            Console
          </button>
        ) : null}
        {hasSerial || (rights.has('streamSerial') && isUp) ? (
          <button type="button" aria-pressed={hasSerial} onClick={() => setSerial(!hasSerial)}>
            Serial console
          </button>
        ) : null}
        {hasLog || (rights.has('getPageLog') && vm.node !== undefined) ? (
          <button type="button" aria-pressed={hasLog} onClick={() => setLog(!hasLog)}>
            Log
          </button>
        ) : null}
        {rights.has('patchVm') ? (
          <button type="button" onClick={() => setAsked('change')}>
            Change …
          </button>
        ) : null}
        {rights.has('saveVm') && saves.includes('Disk') ? (
          <button type="button" onClick={() => setAsked('save')}>
            Save …
          </button>
        ) : null}
        {rights.has('commitVm') && saves.includes('Commit') ? (
          <button type="button" onClick={() => setAsked('commit')}>
            Commit …
          </button>
        ) : null}
        {rights.has('ejectVm') && vm.iso !== undefined ? (
          <button type="button" onClick={() => setAsked('eject')}>
            Eject ISO …
          </button>
        ) : null}
        {rights.has('deleteVm') ? (
          <button type="button" class="danger" onClick={() => setAsked('delete')}>
            Delete …
          </button>
        ) : null}
      </div>
      <p role="status" class="help">
        {done}
      </p>
      <Problem text={problem} />
      {hasScreen && isUp ? <Console namespace={namespace} name={name} isOn={vm.vncConsole} /> : null}
      {hasSerial ? <Serial namespace={namespace} name={name} isAllowed={rights.has('streamSerial')} /> : null}
      {hasLog ? <Log namespace={namespace} name={name} /> : null}
      {asked === 'change' ? <Change vm={vm} onClose={close} onDone={setDone} /> : null}
      {asked === 'save' ? <Save vm={vm} onClose={close} onDone={setDone} /> : null}
      {asked === 'commit' ? <Commit vm={vm} onClose={close} onDone={setDone} /> : null}
      {asked === 'eject' ? <Eject vm={vm} onClose={close} onDone={setDone} /> : null}
      {asked === 'delete' ? <Delete vm={vm} onClose={close} onDone={setDone} /> : null}
      {asked !== undefined && isPower(asked) ? (
        <Confirm
          title={`${titleOf(asked)} ${name}?`}
          verb={titleOf(asked)}
          act={() => exec(asked)}
          onClose={close}
        >
          <p>{consequenceOf(asked, vm)}</p>
        </Confirm>
      ) : null}
    </>
  );
}

function isPower(asked: Asked): asked is PowerCommand {
  return powerCommands.some((command) => command === asked);
}
