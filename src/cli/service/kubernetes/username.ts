import type { SelfSubjectReview } from '../../../api/core.ts';
import { selfSubjectReviews } from '../../../api/resources.ts';
import { isSvc3Error } from '../../../errors.ts';
import type { KubeClient } from '../../../kube/types.ts';

/** The caller's name as kube-apiserver knows it; a cluster without that API has none. */
export async function usernameOf(client: KubeClient): Promise<string | undefined> {
  try {
    const review: SelfSubjectReview = await client.create(selfSubjectReviews, {});
    return review.status?.userInfo?.username;
  } catch (error) {
    if (isSvc3Error(error, 'NotFound', 'Forbidden', 'MethodNotAllowed')) return undefined;
    throw error;
  }
}
