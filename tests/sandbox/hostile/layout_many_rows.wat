;; expect: 1.15
;; role: sampler
;; layout: max_rows=65

