;; expect: 1.15
;; role: sampler
;; layout: minor=1

