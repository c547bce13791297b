;; expect: 1.15
;; role: sampler
;; layout: rows=8312

