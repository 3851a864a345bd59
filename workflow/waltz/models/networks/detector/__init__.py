"""The Faster R-CNN of Visual Genome that LXMERT and VisualBERT take their regions from, in plain PyTorch.

Source:
    Anderson et al., Bottom-up and top-down attention (CVPR 2018); Ren et al., Faster R-CNN (NeurIPS 2015). What is
    computed follows the released weights `unc-nlp/frcnn-vg-finetuned`: ResNet-101-C4, 1,600 classes, 400 attributes.
"""
