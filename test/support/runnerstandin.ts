import type { PowerRequest, RunnerState } from '../../src/api/runner.ts';
import type { Growth } from '../../src/controllers/vm/runner/runnerlinks.ts';
import { runnerState } from '../unit/controllers/vm/builders.ts';
import { checkVerb } from '../../src/runner/powerstate.ts';
import type { SimulatedKubelet } from './kubelet.ts';

/**
 * Stands for the runners of all VMs: carries verbs out as src/runner/supervisor.ts does, and keeps the requests that it has answered. It
 * cannot show what QEMU and a guest do meanwhile; test/integration/runner/power.test.ts does.
 */
export class RunnerStandIn {
  state = runnerState();
  /** Carried out since the last `forget`. */
  verbs: string[] = [];
  /** Told with the last start. */
  settings: PowerRequest['settings'];
  /** How the kubelet answers pods that are to be of another size; undefined: they are. */
  resize: { reason: 'Deferred' | 'Infeasible'; message: string } | undefined;
  readonly #kubelet: () => Pick<SimulatedKubelet, 'behave'>;

  /** @param kubelet - that of the world, which a test makes later */
  constructor(kubelet: () => Pick<SimulatedKubelet, 'behave'>) {
    this.#kubelet = kubelet;
  }

  become(state: Partial<RunnerState>): RunnerState {
    const { startRequest, restartRequest, revertRequest, settingsVersion } = this.state;
    const kept = { startRequest, restartRequest, revertRequest, settingsVersion };
    this.state = runnerState({ ...kept, guestStarted: true, ...state });
    const { resize } = this;
    this.#kubelet().behave(() =>
      this.state.powerState === 'Running'
        ? { kind: 'run', ...(resize === undefined ? {} : { resize }) }
        : { kind: 'unready' },
    );
    return this.state;
  }

  forget(): void {
    this.verbs = [];
  }

  /** For `startVmOperator`. */
  readonly parts = () => ({
    openRunner: () => ({
      state: async () => this.state,
      power: async (request: PowerRequest) => this.#carryOut(request),
      resize: async (bytes: number) => this.#grow(bytes),
      eject: () => Promise.reject(new Error('not asked for')),
      claim: () => Promise.reject(new Error('not asked for')),
      ports: () => Promise.reject(new Error('not asked for')),
      fingerprint: () => 'print',
    }),
  });

  #grow(diskSize: number): Growth {
    this.verbs.push(`resize ${diskSize}`);
    this.become({ ...this.state, diskSize });
    return { diskSize, message: 'the disk has grown' };
  }

  #carryOut(request: PowerRequest): RunnerState {
    const { action, startRequest, restartRequest, revertRequest, settings, suspendTo } = request;
    checkVerb(action, this.state.powerState);
    this.verbs.push(action);
    this.settings = settings ?? this.settings;
    if (action === 'stop') return this.become({ powerState: 'Stopped', reason: 'Requested' });
    if (action === 'suspend')
      return this.become({
        powerState: 'Suspended',
        suspendKind: suspendTo ?? 'Memory',
        reason: 'Requested',
      });
    return this.become({
      startRequest: startRequest ?? this.state.startRequest,
      restartRequest: restartRequest ?? this.state.restartRequest,
      revertRequest: revertRequest ?? this.state.revertRequest,
      settingsVersion: settings?.version ?? this.state.settingsVersion,
    });
  }
}
