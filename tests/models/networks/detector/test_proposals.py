import torch

from waltz.models.networks.detector import AnchorGenerator, DetectorSettings, ProposalGenerator, ProposalHead


def with_anchors(module: torch.nn.Module, boxes: list[list[float]]) -> None:
    with torch.no_grad():
        next(iter(module.parameters())).copy_(torch.tensor(boxes))


def test_anchors_stand_on_the_upper_left_corner_of_their_cell_row_by_row():
    anchors = AnchorGenerator(2)
    with_anchors(anchors, [[-8, -4, 8, 4], [-1, -2, 1, 2]])
    assert anchors(2, 3, 0.0)[[0, 1, 2, 5, 6, 11]].tolist() == [
        [-8, -4, 8, 4],
        [-1, -2, 1, 2],
        [8, -4, 24, 4],
        [31, -2, 33, 2],
        [-8, 12, 8, 20],
        [31, 14, 33, 18],
    ]
    assert anchors(1, 2, 0.5)[2].tolist() == [16, 4, 32, 12]


def test_scores_and_deltas_go_with_their_anchor():
    # of each cell the channels are anchor 0: dx, dy, dw, dh; anchor 1: dx, ...; the map counts its cells
    head = ProposalHead(1, 1, 2)
    with torch.no_grad():
        for part in head.parameters():
            part.zero_()
        head.conv.weight[0, 0, 1, 1] = 1
        head.objectness_logits.weight[:, 0, 0, 0] = torch.tensor([1.0, 10])
        head.anchor_deltas.bias.copy_(torch.arange(8.0))
    scores, deltas = head(torch.arange(6.0).view(1, 1, 2, 3))
    assert scores.tolist() == [0, 0, 1, 10, 2, 20, 3, 30, 4, 40, 5, 50]
    assert deltas.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] * 6


def test_the_best_candidates_are_chosen_before_they_are_cut_and_thinned():
    # one anchor of 20 x 20 in each of 6 cells, not moved; scores 0 to 5 from left to right
    settings = DetectorSettings(candidates=3, proposals=2, proposal_overlap=0.0)
    found = ProposalGenerator(1, 1, 1, settings)
    with torch.no_grad():
        for part in found.parameters():
            part.zero_()
        found.rpn_head.conv.weight[0, 0, 1, 1] = 1
        found.rpn_head.objectness_logits.weight.fill_(1)
    with_anchors(found, [[-10, -10, 10, 10]])
    states = torch.arange(6.0).view(1, 1, 1, 6)
    # at the image's end of 70 pixels the last anchor is nothing, and no fourth takes its place; of the other two, which
    # overlap, the better stays
    assert found(states, 16, 70).tolist() == [[54, 0, 70, 10]]
    assert found(states, 16, 100).tolist() == [[70, 0, 90, 10], [38, 0, 58, 10]]
