; Blocks, groups and containers fold.
[(block) (group) (container)] @fold
