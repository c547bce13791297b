;; expect: 1.15
;; role: sampler
;; layout: max_backtrack=4294967295

