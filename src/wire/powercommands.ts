/** What `/api/v1` may ask of a VM that is there. */
export const powerCommands = ['start', 'stop', 'restart', 'resume', 'suspend', 'revert'] as const;
export type PowerCommand = (typeof powerCommands)[number];
